"""The notes of a verdict on runs without attack, and on those without the attackers' data, held against the lines."""

import re
from collections.abc import Callable
from math import isfinite

from .verdict_truth import Part, Row, half, mean_of, number
from .verdict_words import OfParts, near, outside_brackets


def _is_gone(row: Row) -> bool:
    return bool(row.get("diverged") or row.get("not_finite"))


def _guesses(row: Row) -> bool:
    """Whether its loss at the end is not yet twice that of a guess."""
    of = row.get("diverged") or {}
    return "last" in of and not row.get("not_finite") and of["last"] < 2 * of["guess"]


class WithoutAttack(OfParts):
    """Reads them."""

    def _bad(self, is_so: Callable[[Row], object], idle: bool = False) -> list[str]:
        t, said = self.truth, []
        for place in t.places:
            for d in t.defences:
                rows = t.clean_rows(place, d)
                bad = sum(bool(is_so(row)) for row in rows)
                if bad and (idle or not t.idle(place, d)):
                    said.append(f"{d}{t.under(place)} on {bad} of {len(rows)} seed{'s' * (len(rows) != 1)}")
        return said

    def _not_summed(self, found: re.Match[str], note: str) -> None:
        self._same(self._bad(lambda row: row.get("nothing_summed"), idle=True), found[1], note)

    def _gone(self, guesses: bool) -> list[str]:
        """Who diverged without attack, or whose training is no better than a guess, as notes say it."""
        return self._bad(lambda row: _is_gone(row) and _guesses(row) == guesses)

    def _diverged(self, found: re.Match[str], note: str) -> None:
        self._gone_and_remedy(False, "A smaller training.lr, or inputs of one scale, may help", found, note)

    def _nothing(self, found: re.Match[str], note: str) -> None:
        self._gone_and_remedy(True, "More rounds, or another training.lr, may help", found, note)

    def _gone_and_remedy(self, guesses: bool, remedy: str, found: re.Match[str], note: str) -> None:
        """What may help, where no other defence learned beside each of these, by the whole interval of its seeds."""
        t = self.truth
        self._same(self._gone(guesses), found[1], note)
        bad = {p for p in t.places for d in t.defences if not t.idle(p, d)
               for row in t.clean_rows(p, d) if _is_gone(row) and _guesses(row) == guesses}  # fmt: skip
        fine = {p for p in t.places for d in t.defences if t.clean_rows(p, d) and not t.idle(p, d)
                and not any(map(_is_gone, t.clean_rows(p, d))) and not t.no_better(self._low(p, d), t.chance(p))}  # fmt: skip
        others = "Others here learned from the same data, so look at the defence first, and at its training.lr"
        self.claim(found[2] == (others if bad <= fine else remedy), f"others learned in {fine}", note)

    def _low(self, place: str, defence: str) -> float:
        of = [number(row, "accuracy", "late") for row in self.truth.clean_rows(place, defence)]
        return mean_of(of) - half(of) if len(of) > 2 else min(of)

    def _withheld_runs(self) -> tuple[list[str], bool]:
        """In how many rounds of whose runs without attack sums were withheld, and whether of slots."""
        t, said, slots = self.truth, list[str](), False
        for place in t.places:
            for d in t.defences:
                rows = [r for r in t.clean_rows(place, d) if r.get("first_withheld") and not r.get("nothing_summed")]
                if rows:
                    first = rows[0]["first_withheld"]
                    same = all(r["first_withheld"] == first for r in rows)
                    when = f"round {first['round']}" + f" of seed {rows[0]['seed']}" * (not same)
                    seeds = f"seed{'s' * (len(rows) > 1)} {', '.join(str(r['seed']) for r in rows)}"
                    why = f"first in {when}{', of a slot' * first['slot']}: {first['reason']}"
                    said.append(f"{d} under {place} in 3 of 30 rounds ({seeds}; {why})")
                    slots = slots or any(r["first_withheld"]["slot"] for r in rows)
        return said, slots

    def _withheld_clean(self, found: re.Match[str], note: str) -> None:
        so, slots = self._withheld_runs()
        self._same(so, found[1], note, "; ")
        self.claim(bool(found[2]) == slots, "slots", note)

    def _like_alone(self) -> list[str]:
        """Who holds, and is not better than who trains alone under the attack that costs it most."""
        t, said = self.truth, list[str]()
        for p in self.holding:
            if "alone" not in t.defences or p.defence == "alone":
                continue
            attack = self._worst(p)
            other = t.of.get((p.place, "alone", attack, p.strength), {})
            both = [(number(r, "accuracy", "late"), number(other[r["seed"]], "accuracy", "late")) for r in p.rows[attack]
                    if r["seed"] in other and other[r["seed"]]["status"] == "done"]  # fmt: skip
            both = [(a, b) for a, b in both if isfinite(a) and isfinite(b)]
            gaps = [a - b for a, b in both]
            if gaps and not (len(gaps) > 1 and mean_of(gaps) > half(gaps)):
                mine, theirs = (100 * mean_of(of) for of in zip(*both, strict=True))
                said.append(f"{p.defence}{t.under(p.place)} with {t.at(p.strength)} ({mine:.1f} %, alone {theirs:.1f} %)")
        return said

    def _no_better(self, found: re.Match[str], note: str) -> None:
        said, so = sorted(outside_brackets(found[1], "; ")), sorted(self._like_alone())
        numbers = [[float(x) for x in re.findall(r"(\d+\.\d) %", one)] for of in (said, so) for one in of]
        alike = all(
            abs(a - b) < 0.11
            for x, y in zip(numbers[: len(said)], numbers[len(said) :], strict=False)
            for a, b in zip(x, y, strict=True)
        )
        names = [[one.partition(" (")[0] for one in of] for of in (said, so)]
        self.claim(names[0] == names[1] and alike, f"so: {so}", note)

    def _little_seeds(self) -> list[str]:
        t, said = self.truth, []
        for place in t.places:
            for d in dict.fromkeys(p.defence for p in self.holding if p.place == place):
                rows, chances = t.clean_rows(place, d), t.chances(place)
                has = {row["seed"]: number(row, "accuracy", "late") for row in rows}
                little = sum(t.no_better(v, chances.get(k, float("nan"))) or v < 0.5 * t.best(place) for k, v in has.items())
                if little and t.learns(place, d):
                    said.append(f"{d}{t.under(place)} on {little} of {len(has)} seeds")
        return said

    def _little_on_some(self, found: re.Match[str], note: str) -> None:
        self._same(self._little_seeds(), found[1], note)

    # --- without the attackers' data ----------------------------------------------------------------------------------

    def _hidden(self) -> list[tuple[str, Part]]:
        """Who holds, and has less than without attack by more than the bound."""
        t, hidden = self.truth, list[tuple[str, Part]]()
        for p in self.holding:
            rows = p.rows[self._worst(p)]
            if mean_of(number(r, "clean", "late") for r in rows) - mean_of(map(t.held, rows)) > t.loss:
                hidden.append((f"{p.defence}{t.under(p.place)} with {t.at(p.strength)}", p))
        return hidden

    def _missing_data(self, found: re.Match[str], note: str) -> None:
        hidden, told = self._hidden(), list[str]()
        for one in outside_brackets(found[1], ", "):
            form = (r"(.+) (\d+\.\d) %( on one seed)?(?: \((\S+) takes (\d+\.\d) points of the (\d+\.\d) % without attack: a"
                    r" break, if the defence gives up without them\))?")  # fmt: skip
            said = re.fullmatch(form, one)
            if said is not None and said[3]:
                continue
            parts = [part for name, part in hidden if said and name == said[1] and near(said[2], self._held(part))]
            if not parts or said is None:
                self.claim(False, f"hidden: {[(name, self._held(part)) for name, part in hidden]}", note)
                continue
            told.append(said[1])
            self.claim(any(self._taken_of(part, said[4], said[5], said[6]) for part in parts), f"taken of {parts[0].rows}", note)
        self.claim({*told} == {name for name, _ in hidden}, f"hidden, too: {hidden}", note)

    def _held(self, part: Part) -> float:
        return mean_of(map(self.truth.held, part.rows[self._worst(part)]))

    def _joined(self) -> list[str]:
        t, said = self.truth, []
        for (place, d, attack, s), rows in t.of.items():
            if attack != "absent" or s is None:
                continue
            done = [row for row in rows.values() if row["status"] == "done"]
            clean = {row["seed"]: row["clusters"]["count"] for row in t.clean_rows(place, d)}
            if one := sum(clean.get(row["seed"], 0) > 1 and row["clusters"]["count"] == 1 for row in done):
                said.append(f"{d}{t.under(place)} with {t.at(s)} on {one} of {len(done)} seeds")
        return said

    def _one_cluster(self, found: re.Match[str], note: str) -> None:
        self._same(self._joined(), found[1], note)
        masked = any(" under Masked" in one for one in self._joined()) or [*self.truth.about["protections"]] == ["Masked"]
        self.claim(("floor" in note) == masked, f"a floor is {masked}", note)

    def _no_absent(self) -> list[str]:
        t, said = self.truth, []
        for (place, d, attack, s), rows in t.of.items():
            bad = [row for row in rows.values() if row["status"] != "done"]
            if attack == "absent" and s is not None and bad:
                why = f"({bad[0]['status']}: {bad[0]['reason']})"
                said.append(f"{d}{t.under(place)} with {t.at(s)} on {len(bad)} of {len(rows)} seeds {why}")
        return said

    def _absent_failed(self, found: re.Match[str], note: str) -> None:
        self._same(self._no_absent(), found[1], note, "; ")

    def _taken_of(self, part: Part, attack: str | None, points: str, whole: str) -> bool:
        """Whether what is said is so of what the attack that leaves least takes of the accuracy without attack."""
        left = {a: mean_of(number(r, "accuracy", "late") for r in of) for a, of in part.rows.items() if of}
        least = min(left, key=lambda a: left[a])
        if attack is None:
            return mean_of(number(r, "clean", "late") for r in part.rows[least]) - left[least] <= self.truth.loss
        if attack not in left or left[attack] > left[least]:
            return False
        clean = mean_of(number(r, "clean", "late") for r in part.rows[attack])
        return clean - left[attack] > self.truth.loss and near(points, clean - left[attack]) and near(whole, clean)
