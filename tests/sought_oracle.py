"""The sentences of a search, read as they stand and held against its lines alone: what is not so, and what no reading is known
of.
"""

import re
from statistics import fmean

from .sought_tables import CLIENTS
from .sought_truth import Point, Truth
from .verdict_words import near

NUMBER = r"(-?\d+\.\d)"
POINT = r"(IPM|ALIE|BadNets|mine)\(\w+ ([\d.]+)\)"
DID = (
    rf"loses {NUMBER} points of accuracy \(the client that loses most(, in any seed,|:) {NUMBER}\)(?:, {NUMBER} points in the"
    rf" last evaluation(?: on (\d+) of (\d+) seeds)?)?(?:, backdoor success {NUMBER} % \(on the models without"
    rf" attack {NUMBER} %\))?"
)
SPENT = r"(\d+) runs(?: \(those that earlier searches left in the folder among them; the budget was \d+\))?, (\d+) CPU seconds"
SEEDS = r"(?:the seed searched|the seeds searched)"
SIDE = {
    "refuted": rf"(\d+) broke {SEEDS}, and did not hold on all others\.",
    "without": rf"(\d+) broke {SEEDS}( that have a result)?, and had no result on another \((.+?)\)\.",
    "undecided": r"(\d+) had no result on one of the seeds searched \((.+?)\), and (?:is|are) not known to be no break\.",
    "open": rf"(\d+) broke {SEEDS} and could not be tried on all others: a larger budget says more\.",
}
"""What is said beside, of points in each state."""
GOALS = {"any": "", "accuracy": " of accuracy, which alone was sought,", "backdoor": " by a backdoor, which alone was sought,"}
ERRED = re.compile(
    rf" (\d+) points? ended in an error, first {POINT} by (\d+): (.+?)\. Where it is the defence's, .+?no break here\."
)
UNPLAYED = re.compile(r" Not played(, for want of budget|, as a break was found before| yet): ([^.]+)\.")
NOTHING = re.compile(r" Yet median learned nothing without attack \(.+?\)\.")


def counts(words: str) -> set[int]:
    """ "1 to 3 and 5"."""
    found = set[int]()
    for part in re.split(r", | and ", words):
        first, _, last = part.partition(" to ")
        found |= {*range(int(first), int(last or first) + 1)}
    return found


class Reader:
    """Holds sentences against the lines; found: what is not so."""

    def __init__(self, truth: Truth) -> None:
        self.so, self.found = truth, list[str]()

    def claim(self, so: bool, what: str, sentence: str) -> None:
        if not so:
            self.found.append(f"{what} | {sentence}")

    def headline(self, words: str) -> None:
        t, text = self.so, words
        if found := re.fullmatch(
            rf"Nothing was tried (yet|that could be played, which says nothing of the defence) \({SPENT}\)\.", words
        ):
            self.claim(not t.of("no break", "undecided", "refuted", "without", "open", "breaks"), "something was played", words)
            return self.claim((found[1] == "yet") == (not t.points), "tried", words)
        text = self._spent(self._unplayed(text, words), words)
        if text.startswith("Broken by "):
            return self._broken(text, words)
        self.claim(not t.of("breaks"), "there is a break", words)
        if text.startswith("median learned nothing"):
            self.claim(t.nothing, "it learned", words)
            found = re.search(
                r"there was nothing to take, and (\d+) points? in # say nothing of it; .+? learning rate\.(.*)", text
            )
            self.claim(bool(found) and int(found[1] if found else 0) == len(self._played()), "points", words)
            rest = self._beside(found[2] if found else "", words)
            return self.claim(not rest.strip(), f"no reading: {rest}", words)
        self.claim(not t.nothing, "it learned nothing", words)
        found = re.match(
            rf"No break{re.escape(GOALS[t.goal])} found in #, by (.+?) of {CLIENTS} clients, at (\d+) points?(?: \((\d+) more"
            r" could not be played\))?; this does not say that there is none\.", text,
        )  # fmt: skip
        if found is None:
            return self.claim(False, "no reading", words)
        self.claim(counts(found[1]) == {p.spot[2] for p in self._played()}, "attackers", words)
        failed = len(t.of("not played"))
        self.claim((int(found[2]), int(found[3] or 0)) == (len(self._played()), failed), f"{failed} failed", words)
        rest = self._erred(self._of_clean(self._beside(text[found.end() :], words), words), words)
        return self._worst(rest, words)

    def _played(self) -> list[Point]:
        return [p for p in self.so.points.values() if self.so.played(p)]

    def _unplayed(self, text: str, words: str) -> str:
        t, found = self.so, UNPLAYED.search(text)
        tried = {p.spot[0] for p in t.points.values()}
        so = (
            [name for name in t.about["attacks"] if name not in tried]
            if t.points and not text.startswith("median learned")
            else []
        )
        self.claim((found[2].split(", ") if found else []) == so, f"not played: {so}", words)
        return text[: found.start()] + text[found.end() :] if found else text

    def _spent(self, text: str, words: str) -> str:
        found = re.search(SPENT, text)
        if found is None:
            self.claim(False, "no runs", words)
            return text
        rows = self.so.rows
        so = len(rows), round(sum(r["cost"]["seconds"] + r["cost"]["beside"] for r in rows) + 1e-9)
        self.claim(int(found[1]) == so[0] and abs(int(found[2]) - so[1]) <= 1, f"spent {so}", words)
        return text[: found.start()] + "#" + text[found.end() :]

    # --- breaks -------------------------------------------------------------------------------------------------------

    def _broken(self, text: str, words: str) -> None:
        t = self.so
        yet = NOTHING.search(text)
        self.claim(bool(yet) == t.nothing, "learned nothing", words)
        text = NOTHING.sub("", text)
        found = re.match(
            rf"Broken by (\d+) of {CLIENTS} clients( \(.+?\))?: {POINT}: {DID}; broken on every seed that was held out(?:"
            r" \((.+?)\))?, too\. (The search was stopped after #: --resume goes on, and may find a cheaper one\."
            r"|Found in #, the first break after (\d+) runs and (\d+) CPU seconds\.)", text,
        )  # fmt: skip
        if found is None:
            return self.claim(False, "no reading of a break", words)
        by, limit, attack, strength, *did, held, tail, _, _ = found.groups()
        point = t.points.get((attack, float(strength), int(by)))
        self.claim(point is not None and t.state(point) == "breaks", "no such break", words)
        self.claim(int(by) == min((p.spot[2] for p in t.of("breaks")), default=0), "one by fewer", words)
        self.claim(not held or held == ", ".join(map(str, t.held_out)), "seeds held out", words)
        self._limit(limit, int(by), words)
        if point is not None:
            self._did(point, did, words)
        return self._fewer(text[found.end() :], int(by), tail.startswith("The search was stopped"), words)

    def _limit(self, limit: str | None, by: int, words: str) -> None:
        built, drawn = self.so.about["built_for"], self.so.about["in_a_round"]
        so = None
        if built is not None:
            so = (
                f" (it is built for {built} in a round)"
                if by <= built
                else f" (beyond the {built} in a round that it is built for)"
            )
            so = f" (it is built for {built} of the {drawn} that are drawn in a round)" if drawn < CLIENTS else so
        self.claim(limit == so, f"limit {so}", words)

    def _fewer(self, text: str, by: int, stopped: bool, words: str) -> None:
        t = self.so
        tried = [p for p in t.points.values() if p.spot[2] < by]
        weaker = [p for p in tried if t.played(p)]
        least = t.about["least"]
        if stopped or (not tried and by == least):
            return self.claim(not text, f"no reading: {text}", words)
        if found := re.fullmatch(r" Fewer \((\d+) to (\d+)\) were not tried: a larger budget says more\.", text):
            return self.claim(not tried and (int(found[1]), int(found[2])) == (least, by - 1), "fewer were tried", words)
        if found := re.fullmatch(r" With fewer \((.+?)\), none of (\d+) points? could be played \((.+)\)\.", text):
            self.claim(counts(found[1]) == {p.spot[2] for p in tried}, "fewer", words)
            return self.claim(not weaker and int(found[2]) == len(tried), "some were played", words)
        states = {name: [p for p in weaker if t.state(p) == name] for name in ("open", "without", "undecided", "refuted")}
        if found := re.fullmatch(r" With fewer \((.+?)\), none was found in (\d+) points?\.", text):
            self.claim(counts(found[1]) == {p.spot[2] for p in weaker} and int(found[2]) == len(weaker), "fewer", words)
            return self.claim(not any(states.values()), f"what is open: {states}", words)
        found = re.fullmatch(
            rf" With fewer \((.+?)\), (\d+) points? (?:was|were) tried, of which (.+?)(?:\. The worst of the last:"
            rf" {DID} by (\d+))?\.",
            text,
        )
        if found is None:
            return self.claim(False, f"no reading: {text}", words)
        self.claim(counts(found[1]) == {p.spot[2] for p in weaker} and int(found[2]) == len(weaker), "fewer", words)
        ends = {"open": "could not be tried on all others (a larger budget says more)", "without": "had no result on another",
                "undecided": "had no result on one of the seeds searched", "refuted": "did not hold on all others"}  # fmt: skip
        for part in found[3].split("; "):
            name = next((n for n, end in ends.items() if part.endswith(end)), "")
            self.claim(bool(name) and int(part.split()[0]) == len(states.pop(name, [])), f"of fewer: {part}", words)
        self.claim(not any(states.values()), f"not said: {states}", words)
        return None

    # --- no break -----------------------------------------------------------------------------------------------------

    def _beside(self, text: str, words: str) -> str:
        """What is said of points that are no break, or not known to be none."""
        t = self.so
        for state, form in SIDE.items():
            found, so = re.search(" " + form, text), t.of(state)
            said = int(found[1]) if found else 0
            self.claim(said == len(so), f"{state}: {len(so)}", words)
            if found:
                text = text[: found.start()] + text[found.end() :]
            if found and state in ("without", "undecided"):
                self.claim(found[found.re.groups] in {why for p in so for _, why in p.without.values()}, f"why {state}", words)
            if found and state == "without":
                lack = any(s in t.seeds for p in so for s in p.without)
                self.claim(bool(found[2]) == lack, "seeds searched without a result", words)
        return text

    def _erred(self, text: str, words: str) -> str:
        t = self.so
        so = [p for p in t.points.values() if any(status == "failed" for status, _ in p.without.values())]
        found = ERRED.search(text)
        self.claim((int(found[1]) if found else 0) == len(so), f"{len(so)} erred", words)
        if found is None:
            return text
        point = t.points.get((found[2], float(found[3]), int(found[4])))
        self.claim(point in so and ("failed", found[5]) in (point.without.values() if point else ()), "the error", words)
        return text[: found.start()] + text[found.end() :]

    def _of_clean(self, text: str, words: str) -> str:
        """What is taken of the accuracy without attack."""
        t = self.so
        found = re.search(
            rf" Of the accuracy without attack {NUMBER} points were taken( in the mean)?, by (\d+), {POINT}; of that without"
            r" these clients' data, by which a break is told, no more than the bound( in the mean)?\. .+?, it is a break\.", text,
        )  # fmt: skip
        if found is None:
            return text
        spot = found[4], float(found[5]), int(found[3])
        taken = []
        for row in (row for row in t.rows if row["seed"] in (*t.seeds, *t.held_out)):
            if row["numbers"].get("attack") == spot[0] and row["status"] == "done" and (
                    float([*row["numbers"].values()][1]), row["attackers"]) == spot[1:]:  # fmt: skip
                taken.append(fmean(t.clean[row["seed"]]["of"][i] - v for i, v in row["of"].items()))
        self.claim(bool(taken) and near(found[1], fmean(taken)) and fmean(taken) > t.loss, f"taken {taken}", words)
        self.claim(bool(found[2]) == bool(found[6]) == (len(taken) > 1), "in the mean", words)
        self.claim(spot in t.points and t.mean(t.points[spot], "loss") <= t.loss, "more than the bound", words)
        return text[: found.start()] + text[found.end() :]

    def _worst(self, text: str, words: str) -> None:
        t = self.so
        found = re.fullmatch(
            rf" The worst(, each in the mean of the seeds that it was played on)?: {DID} by (\d+), {POINT}\."
            rf"(?: On {SEEDS} alone {POINT} by (\d+) {DID}; on all that it was played on {DID}\.)?", text,
        )  # fmt: skip
        if found is None:
            return self.claim(False, f"no reading of the worst: {text}", words)
        of = found.groups()
        point = t.points.get((of[10], float(of[11]), int(of[9])))
        if point is None:
            return self.claim(False, "no such point", words)
        played = self._played()
        self.claim(bool(of[0]) == any(len(p.harms) > 1 for p in played), "in the mean", words)
        top = max(t.mean(p, "severity") for p in played)
        self.claim(t.mean(point, "severity") >= top - 1e-9, f"not the worst: {top}", words)
        self._did(point, of[1:9], words)

        def there(p: Point) -> float:
            return fmean(h.severity for h in t.searched(p))

        most = max(map(there, played))
        self.claim(
            bool(of[12]) == (there(point) < most - 1e-9) or there(point) > most - 1e-6,
            f"worse where it was searched: {most}",
            words,
        )
        if of[12]:
            other = t.points.get((of[12], float(of[13]), int(of[14])))
            self.claim(other is not None and there(other) >= most - 1e-9, "where it was searched", words)
            if other is not None:
                self._did(Point(other.spot, {s: h for s, h in other.harms.items() if s in t.seeds}), of[15:23], words)
                self._did(other, of[23:31], words)
        return None

    def _did(self, point: Point, said: "tuple[str | None, ...] | list[str | None]", words: str) -> None:
        """What a point did, in the mean of its seeds."""
        lost, any_seed, client, end, on, of, success, before = said
        harms = [*point.harms.values()]
        self.claim(near(lost or "9", fmean(h.loss for h in harms)), f"lost {harms}", words)
        self.claim(near(client or "9", max(h.client for h in harms)), f"client {harms}", words)
        self.claim((any_seed == ":") == (len(harms) == 1), "in any seed", words)
        ends = [h.end for h in harms if h.end is not None]
        self.claim(bool(end) == bool(ends) and (not ends or near(end or "9", fmean(ends))), f"ends {ends}", words)
        so = (len(ends), len(harms)) if 0 < len(ends) < len(harms) else (0, 0)
        self.claim((int(on or 0), int(of or 0)) == so, f"ends on {so}", words)
        rates = [h.rates for h in harms if h.rates]
        self.claim(bool(success) == bool(rates), "backdoor", words)
        for k, rate in enumerate((success, before) if rates else ()):
            self.claim(near(rate or "9", fmean(r[k] for r in rates)), f"rates {rates}", words)
