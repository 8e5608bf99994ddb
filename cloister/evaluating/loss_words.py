"""What a finding loses, and to which attack, in words."""

from collections.abc import Sequence

from ..grids.words import names_words
from .judging import Finding, Harm


def points(one: Finding) -> str:
    """What is lost to the worst attack, and from what to what; `_measured` says once of all such numbers what they are."""
    harm = one.harm
    if harm is None or (harm.lost.mean <= 0 and not harm.broke):
        return "nothing"
    seeds = f" in {harm.broke} of {harm.lost.count} seeds" if harm.broke and harm.broke < harm.lost.count else ""
    if harm.lost.mean <= 0:
        most = f"up to {100 * harm.lost.most:.1f} points of accuracy to {harm.attack}{played_on(one, harm)}"
        return f"{most}, nothing in the mean, above the bound{seeds}"
    mean = "" if harm.lost.count == 1 else " in the mean"
    ends = "" if one.held is None else f", from {100 * one.held.mean:.1f} to {100 * (one.held.mean - harm.lost.mean):.1f} %"
    return (
        f"{100 * harm.lost.mean:.1f} points of accuracy{mean if seeds else ''} to {harm.attack}{played_on(one, harm)}{ends}"
        + (f", above the bound{seeds}" if seeds else "")
    )


def at_the_end(one: Finding) -> str:
    """What is lost in the last evaluation alone, from what to what, and what late in the run."""
    ended = one.ended
    final, late = one.over(ended, "accuracy", "final"), one.over(ended, "accuracy", "late")
    if ended is None or final is None or late is None:
        return ""
    seeds = f", above the bound in {ended.broke} of {ended.lost.count} seeds" if ended.broke < ended.lost.count else ""
    mean = " in the mean" if seeds else ""
    ends = f"from {100 * (final.mean + ended.lost.mean):.1f} to {100 * final.mean:.1f} %, {100 * late.mean:.1f} % late in the run"
    return (
        f"in the last evaluation {100 * ended.lost.mean:.1f} points{mean} to {ended.attack}{played_on(one, ended)}, {ends}{seeds}"
    )


def played_on(one: Finding, harm: Harm) -> str:
    """On how many seeds, where not on all: a mean of fewer is not that of the others."""
    return f", played on {harm.lost.count} of {one.seeds} seeds" * (harm.lost.count < one.seeds)


def success(harm: Harm, played: str = "") -> str:
    """How much more often a backdoor succeeds. played: on how many seeds, where not on all."""
    some = harm.broke < harm.lost.count
    mean = " in the mean" if some else ""
    seeds = f", above the bound in {harm.broke} of {harm.lost.count} seeds" if some else ""
    more = f"{100 * harm.lost.mean:.1f} points{mean} more often than without it, in its last poisoned round"
    return f"{harm.attack} succeeds {more}{played}{seeds}"


def rate(one: Finding) -> str:
    """What backdoors gain, the one that gains most in the mean of the seeds, and what any gains on one of them."""
    if one.backdoor is None:
        return ""
    of, most = one.backdoor.lost, 100 * one.gained_most
    mean, several = 100 * max(0.0, of.mean), of.count > 1
    single = f", {most:.1f} on one" if several and f"{most:.1f}" != f"{mean:.1f}" else ""
    return (
        f", and backdoors gain at most {mean:.1f} points of success{f' in the mean of {of.count} seeds{single}' * bool(single)}"
    )


def lost_in_the_mean(one: Finding) -> float:
    return max(0.0, one.harm.lost.mean) if one.harm else 0.0


def verb_of(names: Sequence[str], verb: str) -> str:
    return verb + "s" if len(names) == 1 else verb


def nothing_met(names: Sequence[str], unchanged: bool) -> str:
    """Of defences with which nothing of any attack counted: no praise, as nothing was there to hold against. unchanged: as no
    loyal client's model changed; else as all that attackers sent was refused, with some attack.
    """
    why = "no attack changed any loyal client's model" if unchanged else "what attackers sent was refused, or changed no model"
    return f"{names_words(names)} held against nothing, as {why}"


def they_are(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
