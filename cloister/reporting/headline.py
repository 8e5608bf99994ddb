"""The first sentence about privacy in a run's report: who saw what, at most."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..fl.runs.spoilt_sum import SPOILT
from ..protocol.core.errors import OF_TRAINING
from ..protocol.view.disclosure import COMPARED
from .run_data import Run, is_served, number
from .who_chose import in_slots, slots_in_words

MADE_OWN = ", which each makes its own on its records before it uses it"
"""Of a model that serves nobody as it is."""
IN_CLEAR = {
    "Plain": "The server saw every update in clear.",
    "Permuted": (
        "The server saw every update, its coordinates mixed by a secret of the clients: obfuscation, which known values or"
        " released models undo."
    ),
}


NAMED = 6
"""Clients that are listed in a sentence; of more it is said how many."""
NOT_YET = "How far all sums together isolate single clients is measured when the run is over, and is not in this record."
OF_LATE = "no key of the split"
"""How a client declines that was not there when others were split, and has no key to be compared with them by."""
SEEDED = (
    "This is a simulation, whose noise follows from its seed: epsilon is that of a deployment, where the operating system draws"
    " the noise, and says nothing against who has the seed."
)
TRAINED = " of a client's training data"
ADJACENT = {
    "add or remove": " (there or not)",
    "replace": " (itself, or any other in its place)",
    "zero out": " (with its values, or with zeros)",
}
"""Of an adjacency: what a client, or a record, cannot be told from."""


def smallest_sum(run: Run, client: str = "") -> int | None:
    """Fewest clients in one sum or mean that anybody was told, not counting the one client that it is for; None where nobody was
    told any. Of slots it is not known who is in which: no sum of theirs is over fewer than the floor. client: with it.
    """
    sums = (entry for entry in run.answers if not client or client in map(str, entry.get("about") or ()))
    return min((size for entry in sums if (size := summed_with(entry)) is not None), default=None)


def summed_with(entry: Mapping[str, Any]) -> int | None:
    """Over how many clients an answer's sum is, not counting the one client that it is for; None of an answer that is no sum."""
    if entry.get("what") not in ("sums", "personal sums"):
        return None
    return len(set(entry.get("about") or ()) - ({entry.get("client")} if entry.get("what") == "personal sums" else set()))


def corrupt_of(run: Run) -> int:
    """How many clients, at most, the protection reckons to be corrupt."""
    protection = run.scenario.get("protection")
    found = number(protection.get("corrupt")) if isinstance(protection, dict) else math.nan
    return int(found) if math.isfinite(found) and found > 0 else 0


def _hides(run: Run, least: int) -> str:
    """Among how many an honest client hides in that sum, if as many are corrupt as the protection reckons with, else from another
    that is in it and takes its own part off.
    """
    if not (corrupt := corrupt_of(run)):
        return hides_from_one(least) if any(summed_with(e) == least and e.get("what") == "sums" for e in run.answers) else ""
    left = max(least - corrupt, 0)
    return f"; should {corrupt} of them be corrupt, as the protection reckons, an honest one hides among {left}"


def hides_from_one(least: int) -> str:
    """Of a sum over so many that its members are told: what one of them can take off; empty for a sum of one."""
    if least == 2:
        return "; each of the two takes its own part off, and has the other's update"
    return f"; from one of them, which takes its own part off, another hides among {least - 1}" if least > 2 else ""


def shown_of_pairs(run: Run) -> list[str]:
    """What clients that are compared two by two let others see: each once, with who saw it."""
    shown = (
        f"{'the server' if entry.get('recipient') == 'server' else 'other clients'} saw {entry.get('words')}"
        for entry in run.answers
        if entry.get("what") == "pairs" and number(entry.get("scalars")) > 0
    )
    return list(dict.fromkeys(shown))


def comparisons(run: Run) -> int:
    """How often the server was told how updates compare; an answer about nobody, as where all fell silent, tells nothing."""
    asked = (e for e in run.answers if e.get("recipient") == "server" and str(e.get("what")).startswith("gram"))
    return sum(number(entry.get("scalars", 1)) != 0 for entry in asked)


def privacy_in_words(run: Run) -> str:
    """Who saw what, whether there is an epsilon, and that the rest is said below; empty for a run of which nothing is known."""
    if not run.answers:
        return ""
    protection, least, compared = str(run.summary.get("protection") or _type(run)), smallest_sum(run), comparisons(run)
    pairs = shown_of_pairs(run)
    parts = [IN_CLEAR[protection]] if protection in IN_CLEAR else []
    if not parts and not pairs:
        parts.append("Nobody but a client itself saw its update in clear.")
    if pairs:
        parts.append(f"Clients were compared two by two: {'; '.join(pairs)}.")
    if protection not in IN_CLEAR:
        if least is not None:
            parts.append(
                f"The smallest sum that anybody was told is over {least} client{'s' * (least != 1)}{_hides(run, least)}."
            )
            parts += [words] if (words := isolated(run)) else []
            parts += [NOT_YET] if run.interrupted and not run.summary.get("account") else []
        if in_slots(run):
            parts.append(slots_in_words(run))
        if compared:
            parts.append(f"The server was told {'once' if compared == 1 else f'{compared} times'} how alike updates are.")
    out = run.summary.get("ran_out")
    return " ".join([*([ran_out_in_words(out)] if isinstance(out, dict) and out else []), *parts, _noise(run)])


def isolated(run: Run) -> str:
    """Whom all sums together isolate to fewer than the floor, which bounds each; empty where they isolate nobody so far."""
    account, rules = run.summary.get("account"), run.scenario.get("protection")
    leverage = account.get("leverage") if isinstance(account, Mapping) else None
    worst = number(leverage.get("largest")) if isinstance(leverage, Mapping) else math.nan
    floor = number(rules.get("floor")) if isinstance(rules, Mapping) else math.nan
    if not isinstance(leverage, Mapping) or not worst * floor > 1 + 1e-6:
        return ""
    each, first = run.exposure.get("leverage"), str(leverage.get("client"))
    others = {i: number(of) for i, of in each.items() if i != first} if isinstance(each, Mapping) else {}
    below = [first, *(i for i in sorted(others, key=lambda i: -others[i]) if others[i] * floor > 1 + 1e-6)]
    whom = ", ".join(map(run.client, below[:NAMED])) + (f" and {len(below) - NAMED} more" if len(below) > NAMED else "")
    whose, it = ("its", "it") if len(below) == 1 else ("their", "the first of them")
    return (
        f"But all sums together isolate {whom}: if {whose} updates never changed, {it} would hide as in a group of"
        f" {1 / worst:.2g}, where the floor is {floor:.0f} (sums with a client and, soon after, without it do that, and so do"
        " other weights)."
    )


def ran_out_in_words(out: Mapping[str, Any]) -> str:
    """That the privacy budget of clients was spent before the run was over. out: as `fl.runs.privacy.ran_out`."""
    count = len(out["clients"])
    words = f"The privacy budget of {count} client{'s' * (count != 1)} ran out, first in round {out['round']}"
    return f"{words}: a sum that it does not allow is not made, or is made without them."


def unmoved_in_words(unmoved: Mapping[str, Any], rounds: int) -> str:
    """That a robust rule had no result, so that the model stayed as it was. unmoved: as in a summary."""
    times = f"{unmoved['rounds']} of {rounds} round{'s' * (rounds != 1)}"
    return f"In {times} the rule had no result, and the model stayed as it was: {unmoved['reason']}"


def rejected_in_words(rejected: Sequence[Mapping[str, Any]]) -> str:
    """That updates were rejected, whose, and why the first was; empty where none was. rejected: as in a summary."""
    if not rejected:
        return ""
    whose, first, count = sorted({row.get("client") for row in rejected}, key=str), rejected[0], len(rejected)
    some = ", ".join(map(str, whose[:NAMED])) + (f" and {len(whose) - NAMED} more" if len(whose) > NAMED else "")
    clients = f"client{'s' * (len(whose) != 1)} {some}"
    of = f"{count} update{'s were' if count != 1 else ' was'} rejected, of {clients}"
    if all(row.get("reason") == OF_TRAINING for row in rejected):  # there was no update
        of = f"Training failed {count} time{'s' * (count != 1)}, at {clients}"
    if all(str(row.get("reason")).startswith(OF_LATE) for row in rejected):
        ways = "clients that are to have a model have to be there before the first split"
        return f"{clients.capitalize()} came after a split, or was away at it, and could not be compared with others: {ways}"
    return f"{of}, first in round {first.get('round')}: {first.get('reason')}"


def diverged_in_words(summary: Mapping[str, Any]) -> str:
    """That clients' models came to nothing, by losses that are not finite or by how large they are; empty where none did."""
    if grown := summary.get("diverged"):
        return _grown_in_words(grown, bool(summary.get("privacy")), bool(summary.get("nothing_summed")))
    if not (bad := summary.get("not_finite") or []):
        return ""
    some = ", ".join(map(str, bad[:NAMED])) + (f" and {len(bad) - NAMED} more" if len(bad) > NAMED else "")
    whose = f"The loss of {len(bad)} client{'s' * (len(bad) != 1)} at the end is not finite ({some})"
    return f"{whose}, so that accuracies say nothing of their models: smaller training.lr, or inputs of one scale, may help"


def _grown_in_words(grown: Mapping[str, float], noisy: bool, unsummed: bool) -> str:
    """grown: as `fl.runs.diverged`. noisy: whether noise was added, for privacy. unsummed: whether nothing was summed, which says
    by itself what may help.
    """
    first, last, guess, few = (number(grown.get(key)) for key in ("first", "last", "guess", "clients"))
    of_guess = f" and that of guessing {guess:.3g}" if math.isfinite(guess) else ""
    remedy = f"smaller training.lr, inputs of one scale{', or less noise' if noisy else ''} may help"
    if last >= 2 * (guess if math.isfinite(guess) else first):
        grew = f"the loss on held-out data is {last:.3g} at the end, and was {first:.3g} at first{of_guess}"
        if math.isfinite(few):
            whose = f"The loss of {few:.0f} of {number(grown.get('of')):.0f} clients is far too large, and so is the mean"
            return f"{whose}: {grew}: their models came to nothing, or what they say is not so"
        return f"Training diverged: {grew}: {remedy}"
    less = "no less" if last >= guess else "hardly less"
    ways = f": more rounds, another training.lr, inputs of one scale{', or less noise' if noisy else ''} may help" * (
        not unsummed
    )
    return (
        f"Nothing was learned: at the end the loss on held-out data, {last:.4g}, is {less} than that of guessing, {guess:.4g},"
        f" and accuracy is no better than that of guessing{ways}"
    )


def turned_down_in_words(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Cuts that were not made as a side would have had no sum, one for each cluster: the last, and how often it was so.

    lines: of the rounds' metrics.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for line in lines:
        for name, words in (line.get("turned_down") or {}).items():
            found.setdefault(str(name), []).append((line.get("round", 0), str(words)))
    often = {name: f", {len(of)} times" if len(of) > 1 else "" for name, of in found.items()}
    return [f"cluster {name}: {of[-1][1]} (round {of[-1][0]}{often[name]})" for name, of in found.items()]


def unsummed_in_words(summary: Mapping[str, Any]) -> str:
    """That no update was summed in any round, and why; empty where some was. Of a run under attack attackers may be why."""
    if not (why := summary.get("nothing_summed")):
        return ""
    rounds = summary.get("rounds")
    nothing = f"Nothing was summed in any of {rounds} rounds" if rounds != 1 else "Nothing was summed in the only round"
    remedy = "more clients, fewer models or clusters, or a lower protection.floor may help"
    if why.startswith(("the second server", "the dealer")):
        remedy = "see that it runs and is reached, by clients too, and its log"
    if SPOILT in why:  # a lower floor would let as few as lie have a sum that all others refuse
        remedy = "see that all run the same release and the agreed scenario, and what the one runs without whom sums are opened"
    return f"{nothing}, so that every client has what it began with or learned alone ({why}): {remedy}"


def trouble_in_words(summary: Mapping[str, Any]) -> list[str]:
    """What makes the scores worth less than they seem."""
    found = (diverged_in_words(summary), rejected_in_words(summary.get("rejected") or []), unsummed_in_words(summary))
    return [words for words in found if words]


def corrupt_in_words(said: Mapping[str, Any]) -> str:
    """How many of how many clients are corrupt, and what they do. said: as `fl.runs.under_attack`."""
    deeds = ", ".join(said["by"]) or "who answer as the others do, or not at all"
    return f"{said['corrupt']} of {said['of']} clients, {deeds}"


def loyal_in_words(said: Mapping[str, Any]) -> str:
    """What is left to the loyal clients; empty where nothing is known of them."""
    if said["accuracy_loyal"] is None:
        return ""
    last = f"the mean of the last {said['evaluations']} evaluations" if said["evaluations"] > 1 else "the last evaluation"
    return f"{100 * said['accuracy_loyal']:.1f} % late in the run ({last})"


def attacked_in_words(run: Run) -> str:
    """Both in sentences; empty for a run without an adversary."""
    said = run.summary.get("under_attack")
    if not said:
        return ""
    loyal = loyal_in_words(said)
    return f"Corrupt: {corrupt_in_words(said)}." + (f" Accuracy of the loyal clients: {loyal}." if loyal else "")


def _came(run: Run, name: str) -> bool:
    """Whether an answer of this name came of anything: what was asked of clients that were all away has told nothing."""
    answers = (e for e in run.answers if e.get("recipient") == "server" and str(e.get("what")) == name)
    return not name.startswith(COMPARED) or any(number(e.get("scalars")) > 0 for e in answers)


def _noise(run: Run) -> str:
    """Whether there is an epsilon, rounded upwards."""
    units = {unit: of for unit, of in run.privacy.items() if isinstance(of, dict)}
    meant = {u: ADJACENT.get(str(of.get("adjacency")), "") for u, of in units.items()}
    delta = {u: f" at delta {number(of['delta']):g}" if "delta" in of else "" for u, of in units.items()}
    whose = {u: u + TRAINED * (u == "record") + meant[u] for u in units}
    spent = [f"{up(number(of.get('epsilon_worst')))}{delta[u]} for any {whose[u]}" for u, of in units.items()]
    if spent:
        beside = sorted({str(name) for of in units.values() for name in of.get("acknowledged", ()) if _came(run, str(name))})
        without = f" Beside it {', '.join(beside)} had no noise: none of it is covered." if beside else ""
        seeded = "" if is_served(run) else f" {SEEDED}"
        return f"Differential privacy: epsilon {', '.join(spent)}, for what stands below.{without}{seeded}"
    if what := noise_of_clients(run):
        return f"Clients {what} with differential privacy; how much of it is spent is not in this folder, or not yet."
    return "No differential privacy."


def noise_of_clients(run: Run) -> str:
    """What clients do with noise of their own, by the scenario, whose ledgers may be theirs alone; empty for nothing."""
    training, algorithm = run.scenario.get("training"), run.scenario.get("algorithm")
    if isinstance(training, dict) and training.get("privacy"):
        return "train"
    parts = [algorithm, algorithm.get("choice")] if isinstance(algorithm, dict) else []
    noisy = any(isinstance(part, dict) and isinstance(part.get("noise"), dict) for part in parts)
    return "release what is compared" if noisy else ""


def up(value: float) -> str:
    """With three digits, and not below the value."""
    short = f"{value:.3g}"
    if not math.isfinite(value) or float(short) >= value:
        return short
    return f"{value + 10 ** (math.floor(math.log10(value)) - 2):.3g}"


def down(value: float) -> str:
    """With three digits, and not above the value."""
    short = f"{value:.3g}"
    if not math.isfinite(value) or float(short) <= value:
        return short
    return f"{value - 10 ** (math.floor(math.log10(abs(value))) - 2):.3g}"


def _type(run: Run) -> str:
    protection = run.scenario.get("protection")
    return str(protection.get("type", "")) if isinstance(protection, dict) else ""
