"""What an audit found in a few sentences, worst first, and in lines what it does not cover."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..reporting.headings import Said
from ..threat_models.audit.claim import Victim
from ..threat_models.audit.scoring import BOUND, GOOD, SEEDS
from ..threat_models.audit.uncovered import leaks, left_open, read_records, untried
from .beside_leaks import UPDATES, decided, little, of_sums_alone
from .losses import notes_on_loss
from .sought import CALLED, GRAVEST, SOUGHT, sought
from .which_runs import epsilon_in_words, runs_in_words

MASKS, FLOOR = "masks", "floor"
"""The experiment without which an attack's failure may be that it did not read what was sent; and that on the rows of sums."""
LEAKS = (
    "Parties of this run can find out what Cloister does not promise to hide from them (in brackets how much of it, where 100 %"
    " is as much as without any protection)"
)
MANY_RUNS = 10
"""From which on intervals over runs hold what they say."""
WIDE = 0.2
"""Of an interval, from which on it is told of what was found, too."""
OPENED = (
    "under Encrypted the server and any one client together open every update, as all clients share the key (--against"
    " server+client:0 shows it); nothing is claimed against them"
)
SERVERS = ("the server alone", "the first server alone")
NAMED = 3
"""Things that are named of each observer; the rest are counted."""
NEARLY_ALL = 0.9
"""Of updates, from which on the share says that they are known."""
FURTHER = 0.05
"""Of everything, by which what was found of one client is above what was found in the mean, from which on it is said."""


def headline(found: Mapping[str, Any]) -> str:
    """What was found, in some sentences; no praise where nothing could be shown, and what is worst comes first."""
    return " ".join(f"{first} {'; '.join(lines)}." if lines else first for first, lines in sentences(found).places)


def sentences(found: Mapping[str, Any]) -> Said:
    """The same as a page has it: leaks in a line for each that has them."""
    ours = Counter(c["verdict"] for c in _claims(found) if c["whose"] == "Cloister")
    papers = sum(c["verdict"] == "refuted" for c in _claims(found) if c["whose"] != "Cloister")
    total, parts = sum(ours.values()), list[str]()
    places: list[tuple[str, tuple[str, ...]]] = [(_refuted(found, ours), ())] if ours["refuted"] else []
    by = {(row["observer"], row["experiment"]): row["by"] for row in found["rows"] if row.get("by")}
    worst = {(row["observer"], row["experiment"]): row["worst"] for row in found["rows"] if row.get("worst")}
    if told := (*_leaks_in_words(leaks(found["rows"]), by, worst), *decided(found["rows"]), *_whole_updates(found)):
        places.append((f"{LEAKS}:", told))
    parts += _untried_in_words(found["rows"])
    parts += _records_in_words(found)
    parts += _open_in_words(found["rows"])
    parts += little(found["rows"])
    parts += _ran_out(found)
    if failed := sorted({row["experiment"] for row in found["rows"] if row.get("failed")}):
        parts.append(f"Failed, and tells nothing: {', '.join(failed)}.")
    if not total:
        parts.append("Nothing is claimed of this protection against any of these observers.")
    elif not ours["refuted"]:
        parts.append(_stood(found, ours))
    if others := sum(len(one["claims"]) for one in found.get("unclaimed", ())):
        more = f"{others} more promise{'s' * (others > 1)} of Cloister's hold{'s' * (others == 1)} under other settings"
        named = next((one for one in found["unclaimed"] if one["who"] in SERVERS), found["unclaimed"][0])
        hidden = ", ".join(SOUGHT.get(name, name) for name in dict.fromkeys(named["sought"]))
        rest = ", and more named below" if len(found["unclaimed"]) > 1 else ""
        parts.append(f"{more}, and not for this run, which does not promise to hide from {named['who']}: {hidden}{rest}.")
    if whom := found.get("against"):
        never = untried(found["rows"])
        tried = [one for one in whom if one not in never]
        parts.append(f"Nobody else was {'tried' if tried else 'asked about'} than {' / '.join(tried or whom)}.")
    parts += of_sums_alone(found["rows"])
    if papers:
        parts.append(f"{papers} claim{'s' * (papers > 1)} of the paper {'are' if papers > 1 else 'is'} refuted.")
    return Said((*places, (" ".join(parts), ())) if parts else tuple(places))


def notes(found: Mapping[str, Any]) -> list[str]:
    """Lines: which runs were audited; claims that nothing tried, attacks that failed, claims not made of such runs; and why."""
    lines = [words] if (words := runs_in_words(found)) else []
    lines += _same_clients(found)
    lines += _few_runs(found)
    if untried := [c for c in _claims(found) if c["verdict"] == "not covered"]:
        why: dict[str, list[str]] = {}
        for claim in untried:
            why.setdefault(claim["witness"].removeprefix("not tried: "), []).append(claim["claim"])
        untested = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in why.items())
        lines.append(f"claims that no attack of this audit tested, so that nothing is known of them here: {untested}")
    broken = dict.fromkeys((row["experiment"], row["reason"]) for row in found["rows"] if row.get("failed"))
    lines += [f"the attack {name} {reason}" for name, reason in broken]
    lines += notes_on_loss(found.get("scenario", {}))
    if str(found.get("protection")).startswith("Encrypted("):
        lines.append(OPENED)
    if others := found.get("unclaimed", ()):
        lines += [_not_promised(one) for one in others]
        lines.append(f"why these are not promised for this run: {found['run']}")
    if _promises_epsilon(found.get("scenario", {})):
        lines += epsilon_in_words(found)
        lines.append(
            "the epsilon itself is not tested here, only what attacks find in spite of the noise; whether Cloister's mechanisms"
            " add the noise that they state is tested by cloister audit --self-test, on examples of its own, not on this run"
        )
        lines.append("what attacks find in clear is found without the protection, and without the noise of training too")
    return lines


def _same_clients(found: Mapping[str, Any]) -> list[str]:
    """That several runs were of the same clients, of whom each is a victim in every run."""
    scenario, runs = found.get("scenario", {}), len(found.get("seeds", ()))
    partition = scenario.get("partition") if isinstance(scenario, Mapping) else None
    if runs < 2 or not isinstance(partition, Mapping) or partition.get("type") != "Natural":
        return []
    return [
        f"the clients and their data are the same in all {runs} runs, and each client counts as a victim once a run: what may be"
        " found at most is said of these clients, over runs with other first weights, batches and secrets, and not of others"
    ]


def _few_runs(found: Mapping[str, Any]) -> list[str]:
    """How much less than 95 % intervals over so few runs hold, where runs differ."""
    runs = len(found.get("seeds", ()))
    if not SEEDS <= runs < MANY_RUNS:  # of fewer the table says it
        return []
    return [
        f"{runs} runs: where runs differ by more than victims the interval of a leakage holds less than 95 % (73 % of 3 runs,"
        " 89 % of 5, as simulated), and more seeds make it right"
    ]


def _not_promised(one: Mapping[str, Any]) -> str:
    """One of the `Unclaimed`: what may be found in this run without any promise of Cloister's being broken."""
    things = ", ".join(SOUGHT.get(name, name) for name in dict.fromkeys(one["sought"]))
    return f"Cloister does not promise for this run to hide from {one['who']}: {things}. It does so only under {one['where']}"


def _promises_epsilon(described: Any) -> bool:
    """Whether a field of the scenario sets noise or records' privacy."""
    if isinstance(described, Mapping):
        return any((k in ("noise", "privacy") and v) or _promises_epsilon(v) for k, v in described.items())
    return isinstance(described, list) and any(map(_promises_epsilon, described))


def _refuted(found: Mapping[str, Any], ours: Counter[str]) -> str:
    """Which claims are refuted, and what is known of the others."""
    total, unjudged = sum(ours.values()), ours["inconclusive"] + ours["not covered"]
    fallen = [str(c["claim"]) for c in _claims(found) if (c["whose"], c["verdict"]) == ("Cloister", "refuted")]
    names = ", ".join(fallen[:NAMED]) + (f" and {len(fallen) - NAMED} more" if len(fallen) > NAMED else "")
    rest = f"; {ours['not refuted']} {'is' if ours['not refuted'] == 1 else 'are'} not" if ours["not refuted"] else ""
    rest += f"; {unjudged} could not be judged" if unjudged else ""
    if total == 1:
        return f"The one claim is refuted: {names}."
    return f"{len(fallen)} of {total} claims {'is' if len(fallen) == 1 else 'are'} refuted: {names}{rest}."


def _stood(found: Mapping[str, Any], ours: Counter[str]) -> str:
    """How many claims attacks did not refute, and tests; attacks that could not read what was sent were not in vain."""
    exact, rows = (
        Counter(c["verdict"] for row in found["rows"] if row["experiment"] == name for c in row["claims"])
        for name in (MASKS, FLOOR)
    )
    tests, sums = exact["not refuted"], rows["not refuted"]
    attacked = ours["not refuted"] - tests - sums
    verb = "was" if attacked == 1 else "were"
    how = f"{verb} attacked in vain where the attack works in clear"
    if exact["not covered"]:
        how = f"{verb} not refuted by attacks that work in clear and did not read all that was sent"
    ways = [f"{attacked} {how}"] if attacked or not (tests or sums) else []
    ways += [f"{tests} passed tests of all that was sent"] if tests else []
    ways += [f"{sums} passed a test of all published sums"] if sums else []
    total, unjudged = sum(ours.values()), ours["inconclusive"] + ours["not covered"]
    rest = f"; {unjudged} could not be judged" if unjudged else ""
    tested = total - unjudged
    if not tested:
        return f"None of {total} claims could be judged." if total > 1 else "The one claim could not be judged."
    several = f"{tested} of {total} claims {'was' if tested == 1 else 'were'} tested" if total > 1 else "The one claim was tested"
    return f"{several} and {'none is' if total > 1 else 'is not'} refuted ({', '.join(ways)}){rest}."


def _leaks_in_words(
    several: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]],
    by: Mapping[tuple[str, str], str],
    worst: Mapping[tuple[str, str], Mapping[str, Any]] = MappingProxyType({}),
) -> Iterator[str]:
    """ "client 0 / whoever watches the network can tell which clients share a cluster (100 %)", by who can tell the same.

    by: who of a coalition finds it without the others, by observer and experiment; empty where it takes them together. worst: of
    whom most was found, likewise.
    """

    def named(observer: str, found: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
        gravest = sorted(found, key=lambda one: GRAVEST.index(one[0]) if one[0] in GRAVEST else -1)
        for experiment, leak in gravest[:NAMED]:
            unsure = leak["low"] <= BOUND or leak["high"] - leak["low"] > WIDE  # it may be less than a tenth, or far from this
            wide = f", {_percent(leak['low'])} to {_percent(leak['high'])}" if unsure else ""
            if leak.get("lone"):
                some = f"half of it and more of {len(leak['exposed'])} of {leak['victims']} victims"
                yield f"{sought(experiment)} ({some}; of the others there is too little to find)"
                continue
            if leak["low"] <= 0:  # it is here for some victims' sake
                wide += f"; half of it and more of {len(leak['exposed'])} of {leak['victims']} victims"
            wide += _further(leak, worst.get((observer, experiment), {})) if experiment == UPDATES else ""
            alone = f"; {who} does by itself" if (who := by.get((observer, experiment))) else ""
            yield f"{sought(experiment)} ({_percent(leak['value'])}{wide}{alone})"
        if len(found) > NAMED:
            yield f"{len(found) - NAMED} more"

    alike: dict[str, list[str]] = {}
    for observer, found in several:
        alike.setdefault(", ".join(named(observer, found)), []).append(CALLED.get(observer, observer))
    yield from (f"{' / '.join(observers)} can tell {words}" for words, observers in alike.items())


def _further(leak: Mapping[str, Any], worst: Mapping[str, Any]) -> str:
    """Of whose updates most was found, and how much of what clear tells of it beyond the anchor; empty where that says no more
    than the mean, or is not known.
    """
    apart = worst.get("everything", 0.0) - worst["anchor"] if worst else 0.0
    if apart <= 0 or (share := (worst["value"] - worst["anchor"]) / apart) < leak["value"] + FURTHER:
        return ""
    return f"; of {Victim(worst['client'], worst['seed'], worst.get('name', ''))} {_percent(share)}"


def _open_in_words(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What may be a leak and may be nothing, of those whom no claim covers, in a sentence."""
    found: dict[str, list[str]] = {}
    for observer, experiment, leak in left_open(rows):
        between = f"{_percent(leak['value'])}, {_percent(leak['low'])} to {_percent(leak['high'])}"
        of = "runs" if leak.get("few_runs") else "victims"
        found.setdefault(of, []).append(f"{CALLED.get(observer, observer)}: {sought(experiment)} ({between})")
    for of, several in found.items():
        more = f"; {len(several) - NAMED} more" if len(several) > NAMED else ""
        yield f"Undecided, as so few {of} may show it by chance: {'; '.join(several[:NAMED])}{more}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _records_in_words(found: Mapping[str, Any]) -> Iterator[str]:
    """Records that were read, and whose, in a sentence: of one client alone it counts as well."""
    parts, names = [], found.get("names", {})
    for row in [row for row in read_records(found["rows"]) if row["experiment"] != UPDATES][:NAMED]:
        of, alone = row["records"]["here"], row["records"][row["anchor"]].get("read", 0)
        whose = [str(Victim(one["client"], one["seed"], names.get(str(one["client"]), ""))) for one in of["whose"]]
        owners = ", ".join(whose) if len(whose) <= NAMED else f"{of['clients']} of {of['victims']} clients"
        more = f" ({row['anchor']}: {alone})" if alone else ""
        parts.append(f"{of['read']} of {of['of']}, of {owners}, by {row['observer']} ({row['experiment']}){more}")
    if parts:
        yield f"Records were recovered at {GOOD:.0f} dB or better: {'; '.join(parts)}."


def _whole_updates(found: Mapping[str, Any]) -> Iterator[str]:
    """Who knows whole updates, of whom and of how many rounds, where the share of all that is known of them does not say so."""
    alike, names = dict[str, list[str]](), found.get("names", {})
    for row in read_records(found["rows"]):
        if row["experiment"] != UPDATES or (row["leakage"] or {}).get("value", 1.0) > NEARLY_ALL:
            continue
        most = sorted(row["records"]["here"]["whose"], key=lambda one: (-one["read"], one["seed"], one["client"]))
        parts = [
            f"{one['read']} of {Victim(one['client'], one['seed'], names.get(str(one['client']), ''))}" for one in most[:NAMED]
        ]
        more = [f"those of {len(most) - NAMED} more"] if len(most) > NAMED else []
        alike.setdefault(", ".join([*parts, *more]), []).append(CALLED.get(row["observer"], row["observer"]))
    yield from (f"{' / '.join(observers)} can tell whole updates: {words}" for words, observers in alike.items())


def _untried_in_words(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of whom nothing is known, as nothing could be tried on what they saw; a sentence for each reason."""
    why: dict[str, list[str]] = {}
    for observer, reason in untried(rows).items():
        why.setdefault(reason, []).append(CALLED.get(observer, observer))
    for reason, observers in why.items():
        yield f"Nothing could be tried on what these saw, and nothing is known of it: {' / '.join(observers)} ({reason})."


def _ran_out(found: Mapping[str, Any]) -> Iterator[str]:
    for seed, clients in found.get("ran_out", {}).items():
        first = min(clients.values())
        words = f"In the run of seed {seed} the privacy budget of {len(clients)} client{'s' * (len(clients) != 1)} ran out"
        yield f"{words}, first in round {first}: what is said of later rounds is not of their training."


def _claims(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [claim for row in found["rows"] for claim in row["claims"]]
