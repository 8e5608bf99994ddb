"""What tables, files and pages say of a search, held against its lines."""

import re
from html import unescape
from math import isnan, nan

from cloister.attacking.data import Search, curve, found_words
from cloister.attacking.points import no_break, point_rows, shown
from cloister.attacking.report import by_attack, render, tiles
from cloister.attacking.tables import curve_table, failed_words, points_table, search_json, verdict

from .sought_oracle import Reader
from .sought_tables import ATTACKS, CLIENTS
from .sought_truth import Point
from .verdict_truth import mean_of
from .verdict_words import near

WORDS = {
    "not played": "not played", "breaks": "breaks",
    "undecided": r"(?:no break|nothing to take) on seeds? [\d and]+, no result on seeds? [\d and]+",
    "no break": "no break|nothing to take", "open": r"breaks on .+, (?:others|.+) not tried",
    "refuted": r"breaks on .+, not on .+", "without": r"breaks on .+, no result on seeds? [\d and]+",
}  # fmt: skip
WHY = {
    "breaks": "", "no break": "no break", "refuted": "no break, as it does not hold on other seeds",
    "open": "not known to be a break, as not tried on every seed held out",
    "without": r"not known to be a break, as it has no result on seeds? [\d and]+",
    "undecided": r"not known to be a break, as it has no result on seeds? [\d and]+",
}  # fmt: skip


def seeds_in(words: str) -> set[int]:
    return {int(n) for n in re.findall(r"\d+", words)}


class Surfaces(Reader):
    """Reads them."""

    def surfaces(self, search: Search) -> None:
        t = self.so
        rows = point_rows(search)
        self.claim(len(rows) == len(t.points), "rows", str(len(rows)))
        spots = {}
        for row in rows:
            spot = row["attack"], row["strength"], row["attackers"]
            spots[spot] = row["verdict"]
            self._row(t.points[spot], row)
        order = [-9.0 if row["severity"] is None else row["severity"] for row in rows]
        self.claim(order == sorted(order, reverse=True), "order", str(order))
        for row in shown(search):
            self.claim(spots[row["attack"], row["strength"], row["attackers"]] == row["verdict"], "shown", str(row))
        for point in search.played:
            own = t.points[
                str(point.numbers["attack"]), float(point.numbers[ATTACKS[str(point.numbers["attack"])]]), point.attackers
            ]
            words, form = no_break(search, point), WHY[t.state(own)]
            self.claim(bool(re.fullmatch(form, words)), f"why no break of one that is {t.state(own)}", words)
        self._curve(search)
        self._tiles(search)
        self._attacks(search)
        self._failed(search)
        told = search_json(search)
        self.claim(told["verdict"] == verdict(search) and told["curve"] == curve(search), "json", "")
        best = told.get("cheapest")
        least = min((p.spot[2] for p in t.of("breaks")), default=None)
        self.claim(best is None or best["attackers"] == least, f"json's cheapest of {least}", str(best))
        columns = [[*column.cells] for column in points_table(search).columns]
        self.claim(columns[2] == [row["verdict"] for row in shown(search)], "terminal", str(columns[2]))
        ends = [*curve_table(search).columns[-1].cells]
        self.claim(ends == [found_words(row) for row in curve(search)], "terminal's curve", str(ends))

    def _row(self, point: Point, row: dict[str, object]) -> None:
        t, state, words = self.so, self.so.state(point), str(row["verdict"])
        self.claim(bool(re.fullmatch(WORDS[state], words)), f"a point that is {state}", words)
        self.claim(("nothing to take" in words) <= t.nothing, "nothing to take", words)
        good = [s for s, h in point.harms.items() if s in t.held_out and h.severity > 1]
        lack = re.search(r"no result on (seeds? .+)", words)
        so = {s for s in point.without if state == "without" or s in t.seeds}
        self.claim(not lack or seeds_in(lack[1]) == so, f"without {[*point.without]}", words)
        if words.startswith("breaks on"):
            first = words.partition(", ")[0]
            named = {s for s in t.seeds if s in point.harms} if re.search(r"\d", first.partition(" and on ")[0]) else set[int]()
            all_ = {*t.seeds} <= point.harms.keys()
            self.claim(bool(named) or all_, "a seed searched has no result", words)
            self.claim(seeds_in(first) == {*named, *good}, f"held on {good}", words)
        if state == "undecided":
            self.claim(seeds_in(words.partition(",")[0]) == {*t.seeds} & {*point.harms}, "seeds", words)
        if state != "not played":
            loss, worst = mean_of(h.loss for h in point.harms.values()), max(h.client for h in point.harms.values())
            gained = mean_of(h.rates[0] - h.rates[1] for h in point.harms.values() if h.rates)
            for name, so in (
                ("loss", loss),
                ("worst_client", worst),
                ("gained", gained),
                ("severity", t.mean(point, "severity")),
            ):
                value = row[name]
                self.claim(abs(value - so) < 1e-9 if isinstance(value, float) else isnan(so), f"{name}: {so}", str(value))
        else:
            self.claim(row["severity"] is None and row["loss"] is None, "figures of nothing", str(row))

    def _curve(self, search: Search) -> None:
        t = self.so
        for row in curve(search):
            here = [p for p in t.points.values() if p.spot[2] == row["attackers"]]
            states = [t.state(p) for p in here]
            played = [p for p in here if t.played(p)]
            self.claim((row["tried"], row["failed"]) == (len(here), len(here) - len(played)), "tried", str(row))
            most = max((t.mean(p, "loss") for p in played), default=nan)
            self.claim(row["loss"] is None if isnan(most) else abs(row["loss"] - most) < 1e-9, f"most {most}", str(row))
            words = found_words(row)
            so = ("yes" if "breaks" in states else "unconfirmed" if {"open", "without"} & {*states}
                  else "not played" if not played else "nothing to take" if t.nothing else "none found")  # fmt: skip
            first, *less = words.split(", ")
            self.claim(first == so, f"curve: {so}", words)
            due = [f"{states.count('not played')} not played"] if "not played" in states else []
            due += [f"{states.count('undecided')} not on every seed"] if "undecided" in states else []
            self.claim(less == (due if so in ("none found", "nothing to take") else []), f"curve: {due}", words)
            absent = [r["accuracy"] for (n, _), r in t.absent.items() if n == row["attackers"] and not r["lost"]]
            value = row["absent"]
            self.claim(abs(value - mean_of(absent)) < 1e-9 if value is not None else not absent, f"absent {absent}", str(value))

    def _tiles(self, search: Search) -> None:
        t = self.so
        first, worst, points, *_ = tiles(search)
        least = min((p.spot[2] for p in t.of("breaks")), default=None)
        played = [p for p in t.points.values() if t.played(p)]
        so = f"{least} of {CLIENTS}" if least else "nothing to take" if t.nothing else "none found" if played else "not known"
        self.claim(first.value == so, f"tile: {so}", first.value)
        if played:
            top = max(played, key=lambda p: t.mean(p, "loss"))
            self.claim(near(worst.value, t.mean(top, "loss")), "worst loss", worst.value)
            why = worst.detail.partition("; ")[2]
            alike = [t.state(p) for p in played if t.mean(p, "loss") >= t.mean(top, "loss") - 1e-9]
            self.claim(any(re.fullmatch(WHY[state] or "a break", why) for state in alike), f"worst is {alike}", why)
        failed = len(t.points) - len(played)
        self.claim(points.detail == (f"{failed} could not be played" if failed else "none failed"), "points", points.detail)

    def _attacks(self, search: Search) -> None:
        t = self.so
        for row in by_attack(search):
            of = [p for p in t.points.values() if p.spot[0] == row["attack"] and t.played(p)]
            self.claim(
                row["points"] == len(of) and abs(row["loss"] - max(t.mean(p, "loss") for p in of)) < 1e-9, "attack", str(row)
            )
            rates = [h.rates[0] for p in of for h in p.harms.values() if h.rates]
            self.claim(row["success"] == max(rates, default=None), f"success {rates}", str(row))

    def _failed(self, search: Search) -> None:
        t, words = self.so, failed_words(search)
        so = t.of("not played")
        self.claim(bool(words) == bool(so), "failed", words)
        found = re.match(r"Not played: (\d+) of (\d+) points; most often \((\d+)\): (.+?)\.(?: |$)", words)
        if found:
            why = [next(iter(p.without.values()))[1] for p in so]
            self.claim((int(found[1]), int(found[2])) == (len(so), len(t.points)), "counts", words)
            self.claim(int(found[3]) == max(map(why.count, why)) == why.count(found[4]), f"why {why}", words)


def page(search: Search, reader: Reader) -> None:
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", render(search))))
    reader.claim(re.sub(r"\s+", " ", verdict(search)) in text, "not on the page", verdict(search))
