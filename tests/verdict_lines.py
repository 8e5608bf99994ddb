"""The sentences of a verdict on each strength, held against the lines of the folder: who holds, who breaks and what that costs,
who is undecided, and why.
"""

import re
from collections.abc import Sequence
from math import inf
from statistics import fmean

from .verdict_truth import (
    AT_END,
    BREAKS,
    HOLDS,
    NOTHING,
    REFUSED,
    THROUGH,
    UNCHANGED,
    UNDECIDED,
    Part,
    mean_of,
)  # fmt: skip
from .verdict_words import (
    END,
    GUESS,
    NOTHING_MET,
    OPENINGS,
    POINTS,
    SUCCESS,
    UP_TO,
    Claims,
    names_in,
    near,
    outside_brackets,
    seeds_said,
)  # fmt: skip


class Lines(Claims):
    """Reads them."""

    def lines(self, place: str, lines: Sequence[str]) -> None:
        t, named = self.truth, set[tuple[str, float, bool | None]]()
        for line in lines:
            text = line[:1].lower() + line[1:]
            found = re.fullmatch(r"(.+?)(?: \((\d+) in a round\))?, ([^:]+): (.+)\.", text)
            strength = next((s for s in t.strengths if found and t.at(s) == found[1]), None)
            if found is None or strength is None or found[3] not in OPENINGS:
                self.claim(False, "no reading", line)
                continue
            within = OPENINGS[found[3]]
            here = {p.defence: p for p in t.parts if (p.place, p.strength, p.within) == (place, strength, within) and p.met}
            most = max((p.attackers for p in here.values()), default=0)
            self.claim(int(found[2] or 0) == (most if t.counted and most > strength else 0), f"{most} in a round", line)
            for group in outside_brackets(found[4]):
                for name in self._group(here, group, line):
                    self.claim((name, strength, within) not in named, f"{name} twice", line)
                    named.add((name, strength, within))
        all_of = {(p.defence, p.strength, p.within) for p in t.parts if p.place == place and p.met}
        self.claim(named == all_of, f"not named: {all_of - named}", " ".join(lines))

    def _group(self, here: dict[str, Part], group: str, line: str) -> list[str]:
        why = "|".join(map(re.escape, NOTHING_MET))
        words = {
            UNDECIDED: r"(.+?) (?:is|are) undecided \((.+)\)",
            NOTHING: r"(.+?) learned nothing without attack \((.+)\)",
            "spared": rf"(.+?) held against nothing, as ({why})",
            f"{BREAKS} and {THROUGH}": r"(.+?) breaks? and lets? a backdoor through(?: \((.+)\))?",
            f"{AT_END} and {THROUGH}": r"(.+?) breaks? at the end and lets? a backdoor through(?: \((.+)\))?",
            AT_END: r"(.+?) breaks? at the end(?: \((.+)\))?",
            THROUGH: r"(.+?) lets? a backdoor through(?: \((.+)\))?",
            BREAKS: r"(.+?) breaks?(?: \((.+)\))?",
            HOLDS: r"(.+?) holds?(?: \((.+)\))?",
        }
        found, word = next(((f, word) for word, form in words.items() if (f := re.fullmatch(form, group))), (None, ""))
        if found is None:
            self.claim(False, "no reading of a group", f"{group} | {line}")
            return []
        names = self.defences(found[1])
        word = NOTHING_MET[found[2]] if word == "spared" else word
        if unknown := [name for name in names if name not in here]:
            self.claim(False, f"not there: {unknown}", line)
            return [name for name in names if name in here]
        of = [here[name] for name in names]
        for part in of:
            self.claim(part.word == word, f"{part.defence} {part.word}", line)
        if word == UNDECIDED:
            self._undecided(of, found[2], line)
        elif word == NOTHING:
            self._at_chance(of, found[2], line)
        elif word == HOLDS:
            self._little(of, found[2] or "", line)
        elif word not in (UNCHANGED, REFUSED):
            self._broken(of, found[2] or "", word, line)
        return names

    def _undecided(self, of: Sequence[Part], why: str, line: str) -> None:
        needed = [max(n) for p in of if (n := [n for a, n in p.open.items() if a not in p.lacking])]
        lacking = [p for p in of if p.lacking]
        self.claim(bool(why), "no reason", line)
        for reason in why.split("; "):
            if (seeds := seeds_said(reason)) is not None:
                self.claim(bool(needed) and seeds == max(needed), f"seeds: {needed}", line)
                continue
            found = re.fullmatch(r"no result (on (\d+|some)(?: of (\d+))? seeds )?against (.+) with (.+)", reason)
            if found is None:
                self.claim(False, "no reading of a reason", line)
                continue
            self.claim({*self.defences(found[5])} == {p.defence for p in lacking}, "who lacks", line)
            counts = {n for p in lacking for n in p.lacking.values()}
            if found[4] != "some attacks":
                self.claim({a for p in lacking for a in p.lacking} == {found[4]}, "which attack", line)
            if found[2] not in (None, "some"):
                self.claim(counts == {int(found[2])}, f"seeds without: {counts}", line)
            if found[1] is None:
                self.claim(max(counts) == len(self.truth.seeds), f"seeds without: {counts}", line)
            else:
                self.claim(max(counts) < len(self.truth.seeds), f"seeds without: {counts}", line)
        self.claim(bool(needed) == ("needed" in why), f"seeds: {needed}", line)
        self.claim(bool(lacking) == ("no result" in why), "no result", line)

    def _at_chance(self, of: Sequence[Part], words: str, line: str) -> None:
        found = re.fullmatch(rf"(.+) %, as {GUESS} is (.+) %", words)
        self.claim(found is not None, "no reading", line)
        if found:
            has = names_in(found[1])
            clean = [self.truth.clean(p.place, p.defence) for p in of]
            self.claim(len(has) == len(of) and all(map(near, has, clean)), f"without attack: {clean}", line)
            self.claim(near(found[2], self.truth.chance(of[0].place)), "chance", line)

    def _little(self, of: Sequence[Part], words: str, line: str) -> None:
        t, little = self.truth, set[str]()
        for name, nothing, has in re.findall(
            rf"(?:^|, )(.+?) learned (?:little|(nothing), as {GUESS} is [\d.]+ %): (\d+\.\d) %",
            words.removesuffix(" without attack"),
        ):
            little.add(name)
            part = next((p for p in of if p.defence == name), None)
            self.claim(part is not None and near(has, t.clean(part.place, name)), f"{name} without attack", line)
            self.claim(part is None or bool(nothing) == t.learned_nothing(part.place, name), "nothing or little", line)
        so = {p.defence for p in of if not t.learns(p.place, p.defence)}
        self.claim(little == so, f"learned little: {so}", line)
        self.claim(bool(words) == bool(so), "no reading", line)

    def _broken(self, of: Sequence[Part], told: str, word: str, line: str) -> None:
        by = {p.defence: p for p in of}
        late = through = end = False
        for one in told.split("; "):
            if found := re.fullmatch(rf"(?:(.+) loses most:|loses) ({POINTS.pattern}|{UP_TO.pattern})", one):
                late = True
                part = by.get(found[1] or of[0].defence)
                self.claim((found[1] is None) == (len(of) == 1) and part is not None, "of whom", line)
                if part:
                    self.points(part, found[2], line)
                    most = max(fmean(p.losses[a]) for p in of for a in p.broken_late)
                    mine = max((fmean(part.losses[a]) for a in part.broken_late), default=-inf)
                    self.claim(mine >= most - 1e-9, f"most: {most}", line)
            elif found := SUCCESS.fullmatch(one):
                through = True
                self._through(of, by, found, line)
            elif found := END.fullmatch(one):
                end = True
                self._at_end(of, by, found, line)
            else:
                self.claim(False, "no reading of what is lost", line)
        self.claim(late == any(p.broken_late for p in of), "late", line)
        self.claim(through == any(p.let_through for p in of), "backdoor", line)
        self.claim(end or not any(p.ruined for p in of), "end", line)

    def _through(self, of: Sequence[Part], by: dict[str, Part], found: re.Match[str], line: str) -> None:
        name, attack, points, mean, played, seeds, broke, count = found.groups()
        part = by.get(name or of[0].defence)
        self.claim((name is None) == (len(of) == 1), "of whom", line)
        if part is None or attack not in part.gains:
            return self.claim(False, "no such backdoor", line)
        gains = part.gains[attack]
        self.claim(near(points, fmean(gains)), f"gains {gains}", line)
        most = max(fmean(p.gains[a]) for p in of for a in p.let_through)
        self.claim(fmean(gains) >= most - 1e-9, f"most: {most}", line)
        self._seeds(part, (played, seeds, broke, count, mean), gains, self.truth.success, line)
        return None

    def _at_end(self, of: Sequence[Part], by: dict[str, Part], found: re.Match[str], line: str) -> None:
        name, points, mean, attack, played, seeds, before, after, late, broke, count = found.groups()
        t, part = self.truth, by.get(name or of[0].defence)
        if part is None or attack not in part.rows:
            return self.claim(False, "no such end", line)
        ends, rows = part.ends(attack), part.rows[attack]
        ruins = sum(map(t.ruined, rows))
        self.claim(near(points, fmean(ends)), f"ends {ends}", line)
        final = mean_of(number_at(row, "final") for row in rows)
        self.claim(near(after, final) and near(before, final + fmean(ends)), f"final {final}", line)
        self.claim(near(late, mean_of(number_at(row, "late") for row in rows)), "late in the run", line)
        so = (ruins, len(ends)) if ruins < len(ends) else (0, 0)
        self.claim((int(broke or 0), int(count or 0)) == so and (bool(mean) or not broke), f"ruined {so}", line)
        so = (len(ends), len(t.seeds)) if len(ends) < len(t.seeds) else (0, 0)
        self.claim((int(played or 0), int(seeds or 0)) == so, f"played on {so}", line)
        most = max((fmean(p.ends(a)) for p in of for a in p.ruined), default=-inf)
        self.claim(fmean(ends) >= most - 1e-9, f"most at the end: {most}", line)
        return None


def number_at(row: dict[str, object], name: str) -> float:
    accuracy = row["accuracy"]
    return float(accuracy[name]) if isinstance(accuracy, dict) else float("nan")
