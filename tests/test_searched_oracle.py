"""Every sentence of breakdown searches that are made up by the hundred, read as it stands and held against the lines that were
played for them alone: one that no reading is known of fails, as does one that is not so.
"""

import json
import re
from math import inf
from pathlib import Path

import pytest

from cloister.evaluating.data import read_grid
from cloister.evaluating.over_seeds import over_seeds
from cloister.evaluating.panels import BROKE, breakdowns
from cloister.evaluating.tables import breakdown_table
from cloister.evaluating.verdict import sentences

from .searched_tables import Searches, searched_of
from .searched_truth import Lines, One

FEW, STEP, SETS = 40, 150, 8
"""Tables of a case of the fast test; and of one of the longer ones, and how many of these there are."""
NOTHING = r"learned nothing without attack \(\d+\.\d %, as (?:chance|always saying the most frequent label) is 11\.0 %\)"
TAKEN = (
    r"on (\d+) of (\d+) seeds? more than the bound is taken of the accuracy without attack at ([\d.]+)(?: to ([\d.]+))?; no more"
    r" than the bound of that without the attackers' data, by which a break is told"
)
WITHIN = r"within the (\d+) that it is built for on (\d+) of (\d+) seeds"
VAIN = r"in \d+ of \d+ runs [^;]+"


class Reader:
    """Holds what is said against the lines; found: what is not so."""

    def __init__(self, lines: Lines) -> None:
        self.so, self.found = lines, list[str]()

    def claim(self, so: bool, what: str, sentence: object) -> None:
        if not so:
            self.found.append(f"{what} | {sentence}")

    def row(self, one: One, broke: str, median: str, interval: str, by: str, remarks: str) -> None:
        """One of the table."""
        t, n = self.so, len(one.done)
        count = sum(s.breaks < inf for s in one.done)
        self.claim(broke == f"{count} of {n} seed{'s' * (n != 1)}", f"{count} of {n} broke", broke)
        words = [seed.by[seed.breaks] for seed in one.done if seed.breaks < inf]
        self.claim(by == ("; ".join(dict.fromkeys(words)) or "\u2013"), f"by {words}", by)
        hidden = one.nothing and (not n or one.median[0] == inf)
        if not n or hidden:
            self.claim((median, interval) == ("\u2013", "\u2013"), "a median of nothing", f"{median}, {interval}")
        else:
            self.claim(median == t.median(one), f"median {one.points}", median)
            low, high, covers = one.interval
            ends = t.strength(low), t.strength(high)
            so = f"{ends[0]} to {ends[1]} (covers it with {100 * covers:.1f} %)"
            so = "none: one seed" if n == 1 else f"none; both seeds: {ends[0]} and {ends[1]}" if n == 2 else so
            self.claim(interval == so, f"interval {so}", interval)
        self._remarks(one, remarks, hidden)

    def _remarks(self, one: One, remarks: str, hidden: bool) -> None:
        n, rest = len(one.done), remarks
        for reason in sorted({s.reason for s in one.seeds if s.reason}):
            self.claim(reason in rest, f"reason {reason}", remarks)
            rest = rest.replace(reason, "", 1)
        found = re.search(NOTHING, rest)
        self.claim(bool(found) == (one.nothing and bool(n)), f"nothing is {one.nothing}", remarks)
        rest = re.sub(NOTHING, "", rest)
        if not hidden and n:
            self.claim(("not monotone" in rest) == any(not s.single for s in one.done), "monotone", remarks)
            beyond = re.search(r"beyond the (\d+) that it is built for", rest)
            self.claim((int(beyond[1]) if beyond else None) == one.beyond, f"beyond {one.beyond}", remarks)
            self._within(one, rest, remarks)
            taken = re.search(TAKEN, rest)
            self.claim(bool(taken) == bool(one.taken), f"taken {one.taken}", remarks)
            if taken:
                least, most = float(taken[3]), float(taken[4] or taken[3])
                self.claim((int(taken[1]), int(taken[2])) == (len(one.taken), n), f"taken on {one.taken}", remarks)
                self.claim((least, most) == (min(one.taken), max(one.taken)), f"taken at {one.taken}", remarks)
            rest = re.sub(TAKEN, "", re.sub(rf"not monotone|{WITHIN}|beyond the \d+ that it is built for", "", rest))
            self.claim(re.findall(VAIN, rest) == one.in_vain, f"in vain {one.in_vain}", remarks)
            rest = re.sub(VAIN, "", rest)
        self.claim(not rest.strip("; "), f"no reading: {rest}", remarks)

    def _within(self, one: One, told: str, sentence: str) -> None:
        found = re.search(WITHIN, told)
        so = one.within and (*one.within, len(one.done))
        self.claim((tuple(map(int, found.groups())) if found else None) == so, f"within {so}", sentence)

    def headline(self, first: str, lines: tuple[str, ...]) -> None:
        t = self.so
        counts = sorted({len(one.done) for one in t.of} - {0})
        found = re.fullmatch(
            r"The fewest attackers that break each defence, some from (\d+) to (\d+) tried, (?:median of (?:(\d+) to )?(\d+)"
            r" seeds|(of one seed)|(of which no search has a result))\.", first,
        )  # fmt: skip
        if found is None:
            return self.claim(False, "no reading", first)
        self.claim((int(found[1]), int(found[2])) == (min(t.steps), max(t.steps)), "strengths", first)
        said = [*map(int, filter(None, (found[3], found[4])))] or ([1] if found[5] else [])
        self.claim(said == ([counts[0], counts[-1]] if len(counts) > 1 else counts), f"seeds {counts}", first)
        places = {(one.defence, one.protection): [o for o in t.of if (o.defence, o.protection) == (one.defence, one.protection)]
                  for one in t.of}  # fmt: skip
        self.claim(len(lines) == len(places), "lines", lines)
        several = len({p for _, p in places}) > 1
        for (d, p), of in places.items():
            start = f"{d}{f' under {p}' * several}: "
            line = next((line for line in lines if line.startswith(start)), "")
            self.claim(bool(line), f"nothing of {start}", lines)
            self._line(of, line.removeprefix(start).removesuffix("."), line)
        return None

    def _line(self, several: list[One], text: str, line: str) -> None:
        """What is said of each attack on a defence."""
        for one in several:
            hidden = one.nothing and (not one.done or one.median[0] == inf)
            if hidden:
                self.claim(bool(re.search(rf"(?:^|, ){NOTHING}", text)), "it learned nothing", line)
                continue
            so = f"{self.so.median(one) if one.done else 'no result'} by {one.attack}"
            found = re.search(rf"(?:^|, ){re.escape(so)}((?: \((?:[^()]|\([^()]*\))*\))*)", text)
            self.claim(bool(found), f"{so}", line)
            told = found[1] if found else ""
            fewer = re.search(r"\(on (\d+) of (\d+) seeds; (.+?)\)", told)
            lacks = 0 < len(one.done) < len(one.seeds)
            self.claim(bool(fewer) == lacks, f"on {len(one.done)} seeds", line)
            if fewer:
                self.claim((int(fewer[1]), int(fewer[2])) == (len(one.done), len(one.seeds)), "seeds", line)
                self.claim(fewer[3] in {s.reason for s in one.seeds}, "why", line)
            if one.done:
                self.claim(("not monotone" in told) == any(not s.single for s in one.done), "monotone", line)
                self.claim((f"beyond the {one.beyond} that" in told) == (one.beyond is not None), f"beyond {one.beyond}", line)
                self._within(one, told, line)
                vain = one.median[0] == inf
                self.claim(not vain or all(words in told for words in one.in_vain), f"in vain {one.in_vain}", line)
                self.claim(("learned nothing" in told) == one.nothing, "learned nothing", line)


def not_so(of: Searches, path: Path) -> list[str]:
    """What is said of searches and is not so."""
    reader = Reader(Lines(of))
    table = breakdown_table(of.found)
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    rows = [*zip(*columns, strict=True)]
    by = {(one.attack, one.defence, one.protection): one for one in reader.so.of}
    reader.claim([row[:3] for row in rows] == [*by], "rows", [row[:3] for row in rows])
    for row in rows:
        reader.row(by[row[0], row[1], row[2]], *row[3:])
    path.mkdir(parents=True, exist_ok=True)
    (path / "evaluation.json").write_text(json.dumps(of.about))
    (path / "breakdown.json").write_text(json.dumps(of.found))
    (path / "results.jsonl").write_text("")
    grid = read_grid(path)
    (first, lines), *_ = sentences(grid).places
    reader.headline(first, lines)
    panel = breakdowns(grid)["rows"]
    told = [
        tuple(row[n] for n in ("attack", "defence", "protection", "broke", "median", "interval", "by", "remarks"))
        for row in panel
    ]
    reader.claim(told == rows, f"page: {told}", rows)
    for row in panel:
        one = by[row["attack"], row["defence"], row["protection"]]
        tried = [f"seed {s.seed}: " + " ".join(f"{k:g}{BROKE * broke}" for k, broke in s.tried.items()) for s in one.done]
        reader.claim(row["tried"] == "; ".join(tried), f"tried {tried}", row["tried"])
    return reader.found


def _read(numbers: range, path: Path) -> dict[int, list[str]]:
    return {n: wrong for n in numbers if (wrong := not_so(searched_of(n), path))}


@pytest.mark.parametrize("case", range(3))
def test_no_sentence_of_breakdown_searches_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(FEW * case, FEW * (case + 1)), tmp_path)


@pytest.mark.long
@pytest.mark.sweeps
@pytest.mark.parametrize("case", range(SETS))
def test_no_sentence_of_many_breakdown_searches_says_what_the_lines_do_not(tmp_path: Path, case: int) -> None:
    assert not _read(range(10_000 + STEP * case, 10_000 + STEP * (case + 1)), tmp_path)


def test_medians_change_only_as_they_should() -> None:
    """Seeds twice, in another order, or with one that has no result leave a median; a seed that breaks earlier raises none."""
    for n in range(5000, 5040):
        for one in searched_of(n).found["results"]:
            seeds, median = one["seeds"], one["median"]
            lacking = {"seed": 99, "breaks": None, "holds": None, "single": None, "reason": "no"}
            for others in ([*seeds, *seeds], seeds[::-1], [*seeds, lacking]):
                again = over_seeds(others)["median"]
                assert (again is None) == (median is None)
                assert median is None or all(again[name] == median[name] for name in ("median", "upper"))
            if median is not None:
                first = next(k for k, seed in enumerate(seeds) if not seed["reason"])
                earlier = over_seeds([*seeds[:first], {**seeds[first], "breaks": 1.0}, *seeds[first + 1 :]])["median"]
                ends = [(earlier[name], median[name]) for name in ("median", "upper", "low", "high")]
                assert all((inf if new is None else new) <= (inf if old is None else old) for new, old in ends)


def test_a_sentence_of_searches_that_nobody_can_read_is_told() -> None:
    """Else a new one would be held against nothing."""
    reader = Reader(Lines(searched_of(1)))
    reader.headline("All is well.", ())
    assert reader.found == ["no reading | All is well."]
