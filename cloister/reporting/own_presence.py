"""When a client of a run was there, and in which rounds it was asked for anything, from its own record."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..fl.runs.declines import why_declined
from .own_words import UPDATES, ZEROS

Line = Mapping[str, Any]
SIGNED = "SurvivorSignature"
SHARES = frozenset({"ExplicitShare", "SlotShare"})
"""Of updates that nobody signs for: it is on record before it goes, and may not have come."""
AFTERWARDS = frozenset({"Holds", "Score", "Score, empty"})
"""What it answers when a round is over, also to words that waited for it while it was away, and others had gone on."""
TOOK, MISSED = "its update went into the protocol", "it was not there"
SHUT = "it sent zeros in the place of its update: too few had chosen what it chose, which stayed shut"
NOT_RUNNING = "its process was not running: killed, or its machine was off"
UNTOLD = "its update was sent, and whether it is in the sum it was not told"
BROKE_OFF = "it was asked, and was cut off before its update was sent: others may have gone on"
READY = (
    "it was ready, and no sum with its update was made: too few were there for one, it is alone in its cluster, it came too late,"
    " the algorithm asked for none, or a privacy budget allowed no more"
)
NOT_ASKED = "it was there, and asked for nothing: others were drawn, or it counted as absent while it was slow"
DECLINED = "it was asked, and declined"
LATE = f"{DECLINED}: whoever is not there when clients are split lacks the key of that split, and cannot be compared with them"
TOO_LONG = "its update is not finite, or longer than max_norm"
NOTHING = "it was asked, and sent nothing of an update"
ALONE = "it trained for itself alone, and nothing of that was sent"
BEFORE = "before it was first asked for anything: it was not there yet, or others were asked"
PERHAPS = (UNTOLD, BROKE_OFF, READY, NOTHING)
"""Of rounds in which others may have been summed without it."""
EXACT = frozenset({"MaskedInput, weights", "MaskedInput, counts"})
"""Messages whose sums tell a single one's part exactly by a difference, as it is the same in each."""
NAMED = 8
"""Times without it that are named."""


@dataclass(frozen=True, slots=True)
class Away:
    """A time without a link to the coordinator. since, until: as in the record; until: empty where it did not come back."""

    since: str
    until: str
    why: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """Some rounds, first and last, and what was with them."""

    first: int
    last: int
    words: str

    @property
    def named(self) -> str:
        """As people say it."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def absences(lines: Sequence[Line]) -> list[Away]:
    """In order. What lies before it was first taken, and after the run was over, is none."""
    found: list[Away] = []
    since, why, before = "", "", ""
    there = started = down = False  # down: by what is known of `since`, its process was not running
    for line in lines:
        now = str(line.get("time", ""))
        if "joined" in line:
            if there and (since or not started):  # in Flower nothing notes a start
                found.append(Away(since or before, now, why or NOT_RUNNING))
            since, why, there, started, down = "", "", True, False, False
        elif "ended" in line:
            since, why, there = "", "", False
        elif there and "started" in line:
            since, why, started, down = since or before, why or NOT_RUNNING, True, True
        elif there and "back" in line and since:
            found.append(Away(since, now, why))
            since, why, down = "", "", False
        elif there and "left" in line:
            since, why = since or now, str(line["left"])
        elif there and "away" in line:
            if down:  # it runs again, and is there no more than before
                found.append(Away(since, now, why))
                since, down = now, False
            since, why = since or now, str(line["away"])  # the last is the best known: a stream that breaks off gives none
        before = now
    return [*found, Away(since, "", why)] if since else found


def rounds_of(lines: Sequence[Line]) -> list[Rounds]:
    """Every round up to the last that it was asked in, with what was with it: neighbours that are alike are one entry."""
    asked: dict[int, tuple[int, int]] = {}  # by round, its first line, and the last in which it did something for it
    sent: dict[int, set[str]] = {}
    why: dict[int, str] = {}  # it declined
    alone: set[int] = set()
    for k, line in enumerate(lines):
        t = line.get("round")
        if type(t) is not int or t < 0:
            continue
        told = {str(one.get("what")) for one in line.get("revealed", ())}
        if line.get("told") == "alone":
            alone.add(t)
        if t in alone or (line.get("received") or {}).get("what") == "Task" or (t in asked and told - AFTERWARDS):
            asked[t] = asked.get(t, (k, k))[0], k
        sent.setdefault(t, set()).update(told)
        why |= {t: why_declined(str(line["said"]))} if has_declined(told) and line.get("said") else {}
        why |= {t: TOO_LONG} if "Withheld" in told else {}
    why |= dict.fromkeys((t for t in alone if not sent.get(t, set()) - AFTERWARDS), ALONE)
    return joined(_each(lines, asked, sent, why, any(SIGNED in kinds for kinds in sent.values())))


def _each(
    lines: Sequence[Line], asked: Mapping[int, tuple[int, int]], sent: Mapping[int, set[str]], why: Mapping[int, str], signs: bool
) -> Iterator[Rounds]:
    order = sorted(asked)
    took = False
    for before, t in pairwise([-1, *order]):
        if t > before + 1:
            yield Rounds(before + 1, t - 1, _missed(lines[asked[before][1] : asked[t][0] + 1]) if before >= 0 else BEFORE)
        words = _came(sent.get(t, set()), signs)
        words = ALONE if words == NOTHING and why.get(t) == ALONE else words
        took = took or words in (TOOK, UNTOLD, READY, SHUT)
        if words == DECLINED:
            words = LATE if order[0] > 0 and not took else f"{DECLINED}: {why[t]}" if t in why else DECLINED
        shared = words == TOOK and bool(sent.get(t, set()) & SHARES)
        if (shared or words in (READY, NOTHING)) and _missed(_within(lines[asked[t][0] :], t)) == MISSED:
            words = UNTOLD if shared else BROKE_OFF
        yield Rounds(t, t, words)


def _within(lines: Sequence[Line], t: int) -> Sequence[Line]:
    """Of lines from a round on, those before it was told that the round is over, or is asked in another."""
    for k, line in enumerate(lines):
        over = (line.get("received") or {}).get("what") == "RoundOver"
        if over or line.get("round", t) != t:
            return lines[:k]
    return lines


def _came(kinds: set[str], signs: bool) -> str:
    """Of a round in which it was asked, by the kinds of messages that it sent. signs: whether sums are such that each signs whose
    updates are in them, before they are opened.
    """
    if kinds & UPDATES:
        return UNTOLD if signs and "MaskedInput" in kinds and SIGNED not in kinds else TOOK
    if ZEROS in kinds:
        return SHUT
    if has_declined(kinds):
        return DECLINED
    if "Ready" in kinds:
        return READY
    return NOTHING


def has_declined(kinds: Iterable[str]) -> bool:
    """Whether it declined, what it was asked for or the weights that come before."""
    return any(kind.partition(",")[0] in ("Declined", "Withheld") for kind in kinds)


def _missed(between: Sequence[Line]) -> str:
    """Of rounds of which nothing is in these lines, whether it was away, or its process began."""
    gone = any("away" in line or "left" in line or "started" in line or "joined" in line for line in between)
    return MISSED if gone else NOT_ASKED


def without_it(rounds: Sequence[Rounds], protection: str, left: bool = False) -> str:
    """What it may have cost that it was away: sums with it and without it, soon after one another. Empty where it was not, and
    where the coordinator has single updates anyway. rounds: as `rounds_of`. left: whether it was away after its last update. A
    client knows no more of others' sums.
    """
    took = [k for k, of in enumerate(rounds) if of.words == TOOK]
    missed = (MISSED, NOT_ASKED, *PERHAPS)
    away = [of for of in rounds if (of.words in missed or of.words.startswith(DECLINED)) and took]
    late = [of for of in rounds[:1] if of.words == BEFORE and took]
    after = [f"after {rounds[-1].last}, if there were any,"] if left and took else []
    if protection.startswith(("Plain", "Permuted")) or (not (apart := [*late, *away]) and not after):
        return ""
    some = [*map(_named, apart[:NAMED]), *([f"{len(apart) - NAMED} times more"] if len(apart) > NAMED else [])]
    named = " and ".join(filter(None, [", ".join(some), *after]))
    one = len(apart) == 1 and apart[0].first == apart[0].last and not after
    return (
        f"Round{'' if one else 's'} {named} went on without it, and others with it: whoever has the sums of one with it and"
        " of one without it, if any was opened, over the same others, can subtract them, and if updates hardly changed, what is"
        " left is close to its update alone."
    )


def exact_without_it(lines: Sequence[Line], rounds: Sequence[Rounds]) -> str:
    """What sums with it and without it tell however updates change, though there was none of its update; empty for nothing.

    rounds: as `rounds_of`.
    """
    kinds = {str(one.get("what")) for line in lines for one in line.get("revealed", ())} & EXACT
    if not kinds or not (any(of.words in (MISSED, NOT_ASKED, *PERHAPS) for of in rounds) or is_left(lines, UPDATES | EXACT)):
        return ""
    words = []
    if "MaskedInput, weights" in kinds:
        words.append(
            "The difference of two sums of weights, with it and without, is exactly the number of its records, however updates"
            " change, and clients are told these sums, too."
        )
    if "MaskedInput, counts" in kinds:
        words.append(
            "The difference of two counts of choices, with it and without, is what it chose, where others chose as before."
        )
    return " ".join(words)


def _named(of: Rounds) -> str:
    return f"{of.named} (perhaps: it was not told)" if of.words in PERHAPS else of.named


def is_left(lines: Sequence[Line], kinds: Collection[str] = UPDATES) -> bool:
    """Whether it was away after the last message of these kinds that it sent: whether it left, was cut off, or its process began
    again; also where the coordinator said that all was over and handed it no model, as one may that stops and goes on without it.
    """
    sent = [k for k, line in enumerate(lines) if any(one.get("what") in kinds for one in line.get("revealed", ()))]
    for line in lines[max(sent, default=len(lines)) :]:
        if "ended" in line:  # what was tried after that was in vain
            return not _handed(lines)
        if {"away", "left", "started", "joined"} & line.keys():
            return True
    return False


def _handed(lines: Sequence[Line]) -> bool:
    """Whether it was handed a model at the end."""
    return any((line.get("received") or {}).get("what") == "final" or line.get("told") == "final" for line in lines)


def joined(rounds: Iterator[Rounds]) -> list[Rounds]:
    """Neighbours that are alike as one."""
    found: list[Rounds] = []
    for one in rounds:
        if found and found[-1].words == one.words and found[-1].last + 1 == one.first:
            found[-1] = Rounds(found[-1].first, one.last, one.words)
        else:
            found.append(one)
    return found


def outcome(lines: Sequence[Line], run: str) -> str:
    """How the run, in words, ended for this client, and why it sat out what comes before the first round, where it did."""
    since = max((k for k, line in enumerate(lines) if "joined" in line), default=0)
    said = [str(line["said"]) for line in lines[since:] if line.get("said") and type(line.get("round")) is not int]
    sat_out = f" It had sat out what comes before a round: {said[-1]}." if said else ""
    return f"{_ended(lines, since, run)}{sat_out}"


def _ended(lines: Sequence[Line], since: int, run: str) -> str:
    last = next((line for line in reversed(lines[since:]) if {"joined", "left", "ended"} & line.keys()), {})
    last = next((line for line in lines[since:] if "ended" in line), last)  # what was tried after that was in vain
    if "left" in last:  # what was tried in vain after it had left is told, and is no time of leaving
        left = next(line for line in lines[since:] if "left" in line)
        if any(line.get("revoked") for line in lines[since:]):
            known = next(line for line in lines[since:] if left["left"] in (line.get("away"), line.get("left")))
            return f"Its certificate was revoked: it left {run} at {known.get('time')}."
        return f"It left {run} at {left.get('time')}: {left['left']}."
    if "ended" in last:
        if _handed(lines):
            return f"Took part to the end of {run}."
        why = f" The coordinator said why: {said}." if (said := str(last.get("why", ""))) else ""
        return f"It was there when the coordinator ended {run}, or stopped and may go on, and was handed no model.{why}"
    return f"Takes part in, or was cut off from, {run}: in the second case its rounds went on without it from there."
