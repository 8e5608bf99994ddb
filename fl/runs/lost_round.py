"""Whether a round came to nothing, in words that say what would help, and whether a run goes on after it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ...protocol.core.errors import (
    FEW_KEYS,
    LOST_BETWEEN,
    NO_CLIENT,
    OF_CLIP,
    OF_EITHER,
    OF_FLOOR,
    OF_HELPERS,
    OF_TRAINING,
    PAST_BUDGET,
    Fault,
)
from ...protocol.core.session import DEALER, SECOND_SERVER
from ...protocol.view.answers import BelowFloor, Model
from ...protocol.view.functionality import Functionality
from ..algorithms.algorithm import State
from .scenario import Scenario
from .spoilt_sum import found_by_members, spoilt_by, whose_it_is

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NAMED = 8
"""Clients that a line names."""
LEAST_FLOOR = 2
"""Below which no protection has its floor."""
WHO_ANSWERS = "see that these clients run and are reached, and whether one of them does not follow the protocol"
WHO_HOLDS = "see that clients that hold it run and are reached: these hand it to the others"
WHO_COMPUTES = "see that it runs and is reached, by clients too, and its log"
LACKING = "is not held here", "lacks the seed of the run"
"""Why a client declines that can do nothing for it, whatever the training is like."""
IN_VAIN = 10
"""So many lost rounds in a row, and a run ends. Fewer may be chance: who is sampled differs from round to round."""


def unanswered(
    faults: Iterable[Fault], servers: Collection[int] = (SECOND_SERVER, DEALER), missed: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Which of these servers, of these faults of a round, did not answer as they should; empty where none is at fault.

    missed: of those of which it is known that they gave no answer in time, as `Hosts` says, what is known.
    """
    names = {SECOND_SERVER: "the second server", DEALER: "the dealer"}
    seen = [f for f in _seen(faults) if f.blame in servers]
    silent = sorted({f.blame for f in seen}, reverse=True)
    few = {f.blame: "or the dealer did not answer as it should" for f in seen if f.reason.endswith(OF_EITHER)}
    few |= {f.blame: f.reason.removeprefix("it ") for f in seen if f.reason.endswith(FEW_KEYS)}
    why = {party: missed.get(party, few.get(party, "did not answer as it should")) for party in silent}
    if len({*why.values()}) == 1 < len(silent):
        words = why[silent[0]].replace("it should", "they should").replace("was not", "were not")
        return f"{' and '.join(names[party] for party in silent)} {words}"
    return " and ".join(f"{names[party]} {why[party]}" for party in silent)


class NothingLearned(ValueError):
    """No client's update can be used, or no sum can be published: going on would be in vain.

    words: what all parties may hear. refused: whether the protection would not sum, though there was something to be summed. who:
    clients whose updates could not be used, which the message names and the words do not. helper: whether it is for want of a
    second server or a dealer, and may go on when that is mended.
    """

    def __init__(self, words: str, refused: bool = False, who: Sequence[int] = (), helper: bool = False) -> None:
        names = f"client{'s' * (len(who) > 1)} {', '.join(map(str, who[:NAMED]))}{', ...' * (len(who) > NAMED)}"
        super().__init__(f"{words}; of {names}" if who else words)
        self.words, self.refused, self.helper = words, refused, helper


@dataclass(frozen=True, slots=True)
class Lost:
    """What became of a round. words: why nothing was learned in it; empty if something was. hopeless: whether whoever takes part
    now cannot do better later. refused, who, helper: as in `NothingLearned`.
    """

    words: str = ""
    hopeless: bool = False
    refused: bool = False
    who: tuple[int, ...] = ()
    helper: bool = False


def why_lost(
    scenario: Scenario,
    round: int,
    state: State,
    before: set[Model],
    first: bool,
    faults: Sequence[Fault],
    refused: Sequence[BelowFloor],
    clients: Collection[int],
    declined: Collection[int],
) -> Lost:
    """Of the round of this number, which led to this state. before: the models of clusters until then. first: whether these were,
    and are, the initial ones alone. faults, refused: of the round. clients: of the population. declined: who would not train,
    past its budget.
    """
    clusters, seen = list(state.clusters.values()), _seen(faults)
    below = [sum_ for sum_ in refused if sum_.clients]
    own = [f for f in seen if f.blame in clients]  # and not the server's of a sum that nobody was left for
    unused = _unused_of(own)
    words, hopeless = "", False
    alone = bool(getattr(getattr(scenario.algorithm, "in_slots", None), "own", ""))  # each goes on with a model of its own
    shut = bool(faults) and "no slot was chosen by" in faults[-1].reason
    if alone and (shut or below):
        return Lost()
    silent = unanswered(faults)
    few = silent.endswith(FEW_KEYS)  # so that a sum is of few for want of these
    lacking = bool(silent) and (few or all(len(s.clients) >= s.floor for s in below))  # else it is too small without it, too
    still = {c.model for c in clusters} <= before and not state.measured
    if still and lacking:
        words = f"no update of round {round} could be summed: {silent}; {WHO_COMPUTES}"
        return Lost(words, helper=not few or " keys of 0 of " in silent)  # of some keys, clients may lie that sent it none
    if first and below:
        floor = below[-1].floor
        spoilt = spoilt_by(below[-1], faults)
        if spoilt and not unused:
            words = f"{spoilt}, and there is no other sum; {whose_it_is(scenario)}"
        else:
            words = (
                _unusable(unused, floor, scenario) if unused else _too_few(below[-1], len(below[-1].clients) >= floor, scenario)
            )
        hopeless = sum(len(c.members) for c in clusters) < floor
    elif own and {f.blame for f in own} <= (spent := {*declined, *_spent(own)}):
        hopeless = first and spent >= set(clients)
        words = f"no client can train: {own[-1].reason}" if hopeless else ""  # else models are what they are for good
    elif faults and still:
        why = (seen or faults)[-1].reason
        spoilt = next((found for sum_ in refused if (found := spoilt_by(sum_, faults))), "") or found_by_members(faults)
        words = f"no update of round {round} could be used ({spoilt or why}); {_remedy(why, bool(spoilt), shut, scenario)}"
        present = {*getattr(state, "open_to", ()), *(i for c in clusters for i in c.members)}
        hopeless = present <= {f.blame for f in seen if OF_HELPERS not in f.reason}
    return Lost(words, hopeless, first and bool(below) and not unused, tuple(sorted(unused)) if first and below else ())


def _remedy(why: str, spoilt: bool, shut: bool, scenario: Scenario) -> str:
    """What helps where nothing of a round could be used. why: the last fault's reason. spoilt: whether it is that an input was
    none. shut: whether it is that too few chose any slot.
    """
    if spoilt:
        return whose_it_is(scenario)
    if why.startswith(NO_CLIENT):
        return WHO_ANSWERS
    if why.endswith(LACKING):
        return WHO_HOLDS
    if why.endswith(LOST_BETWEEN):
        ways = ["more clients", "a larger protection.slot_spare", *_lower(scenario)]
        return f"clients were lost between counts and sums, and {_any_of(ways)} may help"
    ways = _for_slots(scenario) if shut else ["inputs of one scale", "a smaller training.lr"]
    return f"{_any_of(ways)} may help"


def after_a_loss(state: State) -> State:
    """The state after a round of which nothing came."""
    frozen = cast("DataclassInstance", state)
    measured = {"measured": dict[str, object]()} if any(field.name == "measured" for field in fields(frozen)) else {}
    return cast(State, replace(frozen, **measured, round=state.round + 1))


def _seen(faults: Iterable[Fault]) -> list[Fault]:
    """Those that are not a client's word of another, which may be false: it tells that something was refused."""
    return [f for f in faults if f.by is None or f.by < 0]


def _spent(faults: Iterable[Fault]) -> set[int]:
    """Those whom their privacy budget did not allow what they were asked for."""
    return {fault.blame for fault in faults if PAST_BUDGET in fault.reason}


def why_withheld(sum_: BelowFloor, faults: Iterable[Fault]) -> str:
    """Why a sum was not opened, by the faults of its round: neither a budget that is spent nor an input that is none is what the
    sum itself tells.
    """
    if spoilt := spoilt_by(sum_, faults := [*faults]):
        return spoilt
    spent = _spent(faults)
    if spent and not sum_.clients and not sum_.shut:  # who cannot pay is not asked
        return f"the privacy budget of {len(spent)} clients allows no more"
    if (of := spent & {*sum_.clients}) and len(sum_.clients) - len(of) < sum_.floor:
        return f"the privacy budget of {len(of)} of {len(sum_.clients)} clients allows no more"
    return sum_.words


def _too_few(sum_: BelowFloor, enough: bool, scenario: Scenario) -> str:
    """Of a sum that is below the floor though its clients had something to sum. enough: whether they are as many as the floor."""
    return f"{sum_.words}, and there is no other; what may help: {_more(scenario, enough)}"


def _more(scenario: Scenario, weighed: bool) -> str:
    """What lets a sum reach its floor. weighed: whether that hangs on what each client weighs in it."""
    protection, ways = scenario.protection, list[str]()
    corrupt = getattr(protection, "corrupt", 0)
    if weighed and getattr(scenario.algorithm, "by_samples", False):
        near = corrupt and hasattr(protection, "max_samples")  # what counts beside what corrupt clients may claim
        ways += ["algorithm.by_samples=False", *["protection.max_samples near what the largest client has"] * bool(near)]
    if weighed and into_slots(scenario) and getattr(scenario.algorithm, "most", 1) > 1:
        ways.append("algorithm.most=1")
    if getattr(scenario.algorithm, "complete", False):  # whatever the floor, all who are invited are needed
        ways.append("algorithm.complete=False, by which who falls silent is left out")
    else:
        ways = ["more clients", *ways, *["a lower protection.corrupt"] * bool(corrupt), *_lower(scenario)]
    return _any_of(ways)


def what_may_help(sum_: BelowFloor, scenario: Scenario, faults: Iterable[Fault] = ()) -> str:
    """What may have such a sum opened in another run. faults: of its round."""
    if spoilt_by(sum_, faults):
        return whose_it_is(scenario)
    return _any_of(_for_slots(scenario)) if into_slots(scenario) else _more(scenario, len(sum_.clients) >= sum_.floor)


def into_slots(scenario: Scenario) -> bool:
    """Whether clients choose what their updates are summed into."""
    return Functionality.SLOTS in scenario.algorithm.needs


def _any_of(ways: list[str]) -> str:
    return " or ".join([", ".join(ways[:-1])] * (len(ways) > 1) + ways[-1:])


def _for_slots(scenario: Scenario) -> list[str]:
    """What has more clients choose a slot, or opens one that fewer chose."""
    spare = getattr(scenario.protection, "slot_spare", 0) > 0
    all_invited = getattr(scenario.algorithm, "participation", 0.0) == 1
    more = "more clients" if all_invited else "a larger algorithm.participation"
    return [more, "fewer models", *["a lower protection.slot_spare"] * spare, *_lower(scenario)]


def _lower(scenario: Scenario) -> list[str]:
    """That the floor may be lower, where it can be: a sum of one update is that update."""
    return ["a lower protection.floor"] if getattr(scenario.protection, "floor", 0) > LEAST_FLOOR else []


def _unused_of(faults: Iterable[Fault]) -> dict[int, str]:
    """Clients whose updates were there and could not be used, with the reason of each."""
    return {fault.blame: fault.reason for fault in faults if fault.rejected or fault.reason.endswith(OF_CLIP)}


def _unusable(unused: Mapping[int, str], floor: int, scenario: Scenario) -> str:
    """Of a sum that is, because updates could not be used. unused: by client, why."""
    clip = ", or a larger protection.clip" if hasattr(scenario.protection, "clip") else ""
    who = f"the update{'s' * (len(unused) > 1)} of {len(unused)} client{'s' * (len(unused) > 1)}"
    reason = next(iter(unused.values()))
    heavy = all(why.endswith(OF_FLOOR) for why in unused.values())
    ways = _more(scenario, True) if heavy else f"inputs of one scale, a smaller training.lr{clip}"
    if all(PAST_BUDGET in why for why in unused.values()):
        ways = "a larger budget, a larger noise multiplier or fewer rounds"
    if all("protection.max_samples" in why for why in unused.values()):
        ways = "a larger protection.max_samples"
    if all(why == OF_TRAINING for why in unused.values()):
        ways = "what those say of the client's model, loss and data"
    return f"{who} could not be used ({reason}), and a sum of the others is below the floor of {floor}; {ways} may help"
