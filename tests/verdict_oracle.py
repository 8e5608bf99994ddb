"""The sentences of a verdict, read as they stand and held against the lines of the folder: what is not so, and what no reading
is known of. Notes are read by `verdict_notes`.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from math import inf
from statistics import fmean

from cloister.reporting.headings import Said

from .verdict_lines import Lines
from .verdict_truth import HOLDS, REFUSED, UNCHANGED, Part, half, seeds_for
from .verdict_words import GUESS, NOTHING_MET, NUMBER, WITHIN, near, seeds_said


class Reader(Lines):
    """Holds the sentences of a verdict but for its notes against the lines."""

    def places(self, said: Said) -> None:
        t = self.truth
        self.claim(len(said.places) == len(t.places), "places", repr(said.places))
        for place, (first, others) in zip(t.places, said.places, strict=True):
            under = f"Under {place}: " if len(t.places) > 1 else ""
            self.claim(first.startswith(under), "place", first)
            self.headline(place, first.removeprefix(under))
            self.lines(place, others)

    # --- the first sentence -------------------------------------------------------------------------------------------

    def headline(self, place: str, words: str) -> None:
        t = self.truth
        inside = [part for part in t.parts if part.place == place and part.within and part.met]
        text = words[:1].lower() + words[1:]
        if text == "no number of attackers was played that a defence says it is built for.":
            return self.claim(not self._played_within(place), "a number was played", words)
        if text == "no defence has a result with as many attackers as it says it is built for.":
            return self.claim(not inside, "there is a result", words)
        by = {d: [*of] for d, of in groupby(inside, lambda part: part.defence)}
        hold = [d for d, of in by.items() if self._holds(place, of) and t.learns(place, d)]
        spared = [d for d, of in by.items() if all(part.word in (UNCHANGED, REFUSED) for part in of)]
        text = self._without_attack(place, text)
        if spared:
            text = self._spared(by, spared, text, words)
            if not text:
                return self.claim(len(spared) == len(by), "others were met", words)
        self.claim("held against nothing" not in text, "held against nothing", words)
        many = rf"{WITHIN}"
        if text == f"undecided: no defence breaks {many}, and none is known to hold against every attack played.":
            self.claim(not any(part.broken for part in inside), "one breaks", words)
            return self.claim(not hold, f"{hold} hold", words)
        if found := re.fullmatch(
            rf"no defence( that learned (?:half as much as (.+) does without attack|more than {GUESS}, (.+) %,))? (?:is known to"
            rf" hold|(holds)) against every attack played {many}(?:; (.+) (?:is|are) undecided)?\.",
            text,
        ):
            self.claim(not hold, f"{hold} hold", words)
            enough, best, chance, flatly, open_ = found.groups()
            none = not any(t.learns(place, d) for d in by if d not in spared)
            self.claim(bool(enough) or not none, "none learned", words)
            if best:
                self.claim(t.clean(place, best) == t.best(place), "not the best", words)
            if chance:
                self.claim(near(chance, t.chance(place)), "chance", words)
            several = {d for d, of in by.items() if d not in spared and not any(p.broken for p in of) and t.learns(place, d)}
            self.claim({*self.defences(open_)} == several if open_ else not several, f"undecided: {several}", words)
            self.claim(bool(flatly) is not bool(open_), "known or not", words)
            return None
        return self._who_holds(place, by, hold, text, words)

    def _played_within(self, place: str) -> bool:
        """Whether anything, with a result or not, was played within what a defence is built for."""
        t = self.truth
        for (where, d, attack, strength), rows in t.of.items():
            if where != place or attack in (None, "absent"):
                continue
            said = [row["built_for"] for row in t.rows if (t.place(row), row["defence"]) == (place, d) and row.get("built_for")]
            limit = t.about["limits"].get(d, min(said, default=0))
            for row in rows.values():
                unknown = 0 if row["status"] == "done" else self._met_by_others(place, str(attack), float(strength or 0))
                if 0 < (row.get("attackers") or unknown) <= limit:
                    return True
        return False

    def _met_by_others(self, place: str, attack: str, strength: float) -> int:
        """How many attackers there are of an attack at a strength: where it has a result, or as the strength says, or others."""
        there = [p for p in self.truth.parts if (p.place, p.strength) == (place, strength)]
        others = [row["attackers"] or 0 for p in there for row in p.rows[attack]]
        return max(others or ([int(strength)] if self.truth.counted else [p.attackers for p in there]), default=0)

    def _holds(self, place: str, inside: Sequence[Part]) -> bool:
        """Whether a defence holds wherever it is built to, of what anything was met of, and has a result wherever it may be."""
        t, met = self.truth, [part for part in inside if part.word not in (UNCHANGED, REFUSED)]
        if not met or any(part.word != HOLDS for part in met):
            return False
        for strength in t.strengths:
            for attack in t.attacks:
                cells = t.of.get((place, met[0].defence, attack, strength), {}).values()
                lacking = any(row["status"] != "done" for row in cells)
                if lacking and self._met_by_others(place, attack, strength) <= (met[0].limit or 0):
                    return False
        return True

    def _spared(self, by: dict[str, list[Part]], spared: list[str], text: str, words: str) -> str:
        """Takes what is said of those that met nothing from the sentence."""
        why = "|".join(map(re.escape, NOTHING_MET))
        found = re.fullmatch(
            rf"(?:(.+\.) )?(?:with (as many|no more) attackers (?:as|than) (?:it is|they are) built for(?: \((.+)\))?, )?(.+)"
            rf" held against nothing, as ({why})\.",
            text,
        )
        if found is None:
            self.claim(False, "nothing is said of who met nothing", words)
            return text
        rest, many, fewer, names, said = found.groups()
        self.claim({*self.defences(names)} == {*spared}, f"spared are {spared}", words)
        if many:
            self._as_many(by, spared, many, fewer, words)
        if NOTHING_MET[said] == UNCHANGED:
            self.claim(all(p.word == UNCHANGED for d in spared for p in by[d]), "something was refused", words)
        return rest or ""

    def _as_many(self, by: dict[str, list[Part]], names: Sequence[str], many: str, fewer: str | None, words: str) -> None:
        less = set()
        for d in names:
            limit = min(p.limit or 0 for p in by[d])
            attacks = {a: max((row["attackers"] or 0 for p in by[d] for row in p.rows[a]), default=0) for a in self.truth.attacks}
            least, most = min(filter(None, attacks.values())), max(attacks.values())
            numbers = f"{least} to {most}" if least < most else f"{most}"
            less |= {f"{d} with {numbers} of {limit}"} if least < limit else set()
        self.claim(bool(less) == (many == "no more"), f"fewer: {less}", words)
        self.claim({*(fewer or "").split(", ")} - {""} == less, f"fewer: {less}", words)

    def _who_holds(self, place: str, by: dict[str, list[Part]], hold: list[str], text: str, words: str) -> None:
        found = re.fullmatch(
            r"with (as many|no more) attackers (?:as|than) (?:it is|they are) built for(?: \((.+?)\))?, (.+?) holds? against"
            r" every attack played\.(?: (.+))?",
            text,
        )
        if found is None:
            return self.claim(False, "no reading", words)
        many, fewer, names, rest = found.groups()
        named = self.defences(names)
        self.claim(named == hold, f"these hold: {hold}", words)
        if {*named} <= {*by}:
            met = {d: [p for p in by[d] if p.word not in (UNCHANGED, REFUSED)] for d in named}
            self._as_many({d: of for d, of in met.items() if of}, [d for d, of in met.items() if of], many, fewer, words)
        common = set.intersection(*({p.strength for p in by[d] if p.word == HOLDS} for d in hold)) if hold else set()
        if len(hold) > 1 and common:
            of = [p for d in hold for p in by[d] if p.strength == max(common)]
            return self._least(of, rest or "", words)
        self.claim(not rest, "who loses least", words)
        return None

    def _least(self, of: Sequence[Part], rest: str, words: str) -> None:
        t = self.truth
        found = re.fullmatch(
            rf"With {re.escape(t.at(of[0].strength))} (.+?) loses least of these: (nothing|{NUMBER} points.+?%)(?:, and backdoors"
            rf" gain at most {NUMBER} points of success(?: in the mean of (\d+) seeds(?:, {NUMBER} on one)?)?)?\."
            r"(?: Whether (.+) loses? more is undecided( by intervals that hold for all pairs at once)?, (.+)\.)?",
            rest,
        )
        if found is None:
            return self.claim(False, "no reading", words)
        name, lost, _, gain, seeds, single, others, at_once, needed = found.groups()
        pairs = len(of) * (len(of) - 1) // 2
        self.claim(not others or bool(at_once) == (pairs > 1), "pairs", words)
        worst = {p.defence: max(0.0, *map(fmean, p.losses.values())) for p in of}
        self.claim(worst.get(name, inf) <= min(worst.values()) + 1e-9, f"least: {worst}", words)
        part = next(p for p in of if p.defence == name)
        self.points(part, lost, words)
        gains = {a: fmean(v) for a, v in part.gains.items()}
        self.claim((gain is None) == (not gains), "backdoors", words)
        if gain:
            most, any_ = max(0.0, *gains.values()), max(v for of in part.gains.values() for v in of)
            self.claim(near(gain, most), f"gain at most {most}", words)
            counts = {len(part.gains[a]) for a in gains}
            self.claim(seeds is None or int(seeds) in counts, "seeds of gain", words)
            self.claim(near(single or gain, max(any_, 0.0)), f"gains on one: {any_}", words)
        told: dict[str, float] = {}
        for other in (p for p in of if p is not part):
            mine, theirs = self._by_seed(part), self._by_seed(other)
            gap = [theirs[seed] - mine[seed] for seed in mine.keys() & theirs.keys()]
            if len(gap) < 2 or fmean(gap) <= half(gap, pairs):
                told[other.defence] = seeds_for(fmean(gap), gap, pairs) if gap else 3
        self.claim({*self.defences(others)} == {*told} if others else not told, f"may lose as little: {told}", words)
        if needed and told:
            self.claim(seeds_said(needed) == max(told.values()), f"seeds: {told}", words)
        return None

    def _by_seed(self, part: Part) -> dict[int, float]:
        """By seed, what the attack that costs most in the mean costs."""
        worst = max(part.losses, key=lambda a: fmean(part.losses[a]))
        return {row["seed"]: self.truth.lost(row) for row in part.rows[worst]}

    def _without_attack(self, place: str, text: str) -> str:
        """Takes what is said of accuracy without attack from the sentence."""
        t = self.truth
        found = re.search(
            r" Accuracy without attack, over all clients: (.+?)(?:; the best of all, (.+), (\d+\.\d) %)?\."
            rf"(?: {GUESS} is (\d+\.\d) %, and (.+?) (?:is|are) little above it: there was little to lose\.)?(?= |$)(?! %)",
            text,
        )
        if found is None:
            self.claim("Accuracy without attack" not in text, "no reading", text)
            return text
        own, best, best_has, chance, close = found.groups()
        names = []
        for name, has in re.findall(r"(.+?) (\d+\.\d) %(?:, |$)", own):
            names.append(name)
            self.claim(name in t.defences and near(has, t.clean(place, name)), f"{name} has {t.clean(place, name)}", text)
        if best:
            self.claim(near(best_has, t.clean(place, best)) and near(best_has, t.best(place)), f"best: {t.best(place)}", text)
        elif names:
            self.claim(max(t.clean(place, name) for name in names) >= t.best(place), "not the best", text)
        guess = t.chance(place)
        little = {d for d in names if t.clean(place, d) <= guess + min((1 - guess) / 8, guess)}
        little |= {d for d in names if t.clean(place, d) < guess + 2 * t.loss}
        self.claim({*(close or "").split(", ")} - {""} == little, f"little above chance: {little}", text)
        self.claim(chance is None or near(chance, guess), f"chance: {guess}", text)
        return (text[: found.start()] + text[found.end() :]).strip()
