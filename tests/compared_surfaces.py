"""What tables, files, pages and notes say of a comparison, held against its lines; and comparisons changed in ways that may
change words only as they should.
"""

import csv
import io
import re
from collections.abc import Callable
from copy import deepcopy
from html import unescape
from random import Random

from cloister.comparing.data import Found
from cloister.comparing.lines import Line, block_lines
from cloister.comparing.notes import fits, fits_words, footnotes
from cloister.comparing.panels import blocks, overview
from cloister.comparing.report import render
from cloister.comparing.texts import as_json, csv_text, markdown, terminal
from cloister.comparing.verdict import headline, sentences

from .compared_oracle import Reader
from .compared_tables import Compare
from .compared_truth import Block, troubled
from .verdict_tables import Row
from .verdict_truth import mean_of, number
from .verdict_words import near, outside_brackets

GIVEN = (
    "\u2020 The method's paper",
    "Scale of all numbers: ", "Command: ", "Nothing was searched", "Verdict against the highest mean",
    "ARI: ", "Span: ", "Hyper-parameters: ",
)  # fmt: skip
"""How notes begin that say what columns mean, and nothing of results."""

GUESS = "always saying the most frequent label"


class Surfaces(Reader):
    """Reads them."""

    def surfaces(self, found: Found) -> None:
        t, words = self.so, headline(found)
        (place,) = sentences(found).places
        told = [place[0], *place[1]]
        if len(told) > 1:
            lines = [f"Highest mean accuracy {line}" for line in told[1:]]
            told = [told[0].removesuffix("Highest mean accuracy:").strip(), *lines]
        joined = " ".join(filter(None, [*told, *sentences(found).notes]))
        self.claim(joined == words, f"page: {joined}", words)
        self.claim(as_json(found)["verdict"] == words, "json", words)
        known = {b: block_lines(found, *b) for b in t.blocks}
        csv_rows = [*csv.DictReader(io.StringIO(csv_text(found)))]
        for block in t.blocks:
            here = known[block]
            self.claim([line.method for line in here] == t.methods, "methods", str(block))
            rows = next(b for b in blocks(found) if (b["data"], b["protection"]) == block)["rows"]
            for line, panel in zip(here, rows, strict=True):
                row = next(r for r in csv_rows if (r["data"], r["protection"], r["method"]) == (*block, line.method))
                self._line(block, line, row)
                self._standing(block, line, row, panel["counts"])
                self.claim(panel["accuracy"]["words"] == line.accuracy, "page's accuracy", line.accuracy)
                self.claim(panel["accuracy"]["best"] == (line.method in t.best(block)), "page's best", line.method)
            cells = [*terminal(found, *block).columns[1].cells]
            self.claim([str(cell) for cell in cells] == [line.accuracy for line in here], f"terminal: {cells}", str(block))
        shown = {name: [cell["words"] for cell in of] for name, of in overview(found)["rows"]}
        for name, of in shown.items():
            so = [next(li for li in known[b] if li.method == name.rstrip("\u2020*")).accuracy for b in t.blocks]
            self.claim(of == so, f"overview: {of} {so}", name)

    def _line(self, block: Block, line: Line, row: dict[str, str]) -> None:
        t, method = self.so, line.method
        self.cell(block, method, None, line.accuracy)
        of = t.accuracies(block, method)
        self.claim(row["accuracy_seeds"] == (str(len(of)) if of else ""), "csv's seeds", str(row))
        self.claim(not of or abs(float(row["accuracy_mean"]) - mean_of(of)) < 1e-5, "csv's mean", str(row))
        for attack in t.attacks:
            by = {len(one["members"]) for one in t.done(block, method, attack)}
            told = row[f"attackers_{attack}_mean"]
            self.claim(told == (str(*by) if by else ""), f"csv's attackers: {by}", told)
        self.claim((row["status"] == "done") == t.whole(block, method), f"csv's status: {row['status']}", method)
        if t.yardstick in t.methods and t.yardstick != method:
            gap, whole = t.over(block, method)
            found = re.fullmatch(
                r"([+\u2212]?\d+\.\d)(, not all (?:seeds|clients|seeds and clients))?", line.words["over_yardstick"]
            )
            if found is None:
                self.claim(gap == float("inf"), "nothing over the yardstick", line.words["over_yardstick"])
            else:
                self.claim(near(found[1].replace("\u2212", "-"), gap), f"over: {gap}", found[0])
                self.claim(bool(found[2]) != whole, f"over the yardstick of all: {whole}", f"{method}: {found[0]}")
        for attack in t.attacks:
            if block[1] in t.about["attacked"]:
                self.cell(block, method, attack, line.words[f"attack {attack}"])

    def _standing(self, block: Block, line: Line, row: dict[str, str], counts: str) -> None:
        t, method = self.so, line.method
        word, judged, best = line.words["verdict"], t.judged(block), t.best(block)
        if method not in judged:
            self.claim(word == "\u2013" and not line.best and not row["wins"], "not judged", f"{method}: {word}")
            return
        duels = [t.duel(block, method, other).outcome for other in judged if other != method]
        so = "highest mean" if method in best else t.duel(block, method, best[0]).outcome
        so = {"loss": "behind", "undecided": t.needs(block, method, best[0])}.get(so, so)
        self.claim(word == so and line.best == (method in best), f"verdict: {so}", f"{method}: {word}")
        numbers = [duels.count(name) for name in ("win", "loss", "tie", "undecided")]
        told = [row[name] for name in ("wins", "losses", "ties", "undecided_against")]
        self.claim([*map(str, numbers)] == told and counts == " / ".join(told), f"against all: {numbers}", f"{told} {counts}")

    # --- notes --------------------------------------------------------------------------------------------------------

    def notes(self, found: Found) -> None:
        said = [note for note in footnotes(found) if not note.startswith(GIVEN)]
        readings: dict[str, Callable[[str], None]] = {
            r"No result: (.+)": lambda words: None, r"Attackers: .+": lambda words: None,
            r"Attacks are played under .+": lambda words: None,
            r"What could not come to anything: (.+): no group is as large as a sum\.": lambda w: self._who("doubts", w),
            r"In no round was an update summed, so that accuracies are of clients alone: (.+)\.":
                lambda w: self._who("nothing_summed", w),
            r"Training diverged: (.+?)\. A smaller training\.lr, or inputs of one scale, may help\.":
                lambda w: self._who("diverged", w),
            r"Training came to nothing, with loss and accuracy of a guess: (.+)\.": self._nothing,
            r"Learned nothing without attack: (.+)\.": self._at_chance,
            r"(Over .+: difference of mean accuracies, of the seeds that both have\. )?CPU s: of a run, clients and server"
            r" together, mean over seeds; it is of the machine, and varies\.": self._over_whom,
            r"Sums were withheld by the protection, and what was in them moved no model: (.+)\. What may help: more clients\.":
                self._withheld,
        }  # fmt: skip
        due = {
            "doubts": "What could", "nothing_summed": "In no round", "diverged": "Training div", "first_withheld": "Sums were",
            "nothing": "Training came",
        }  # fmt: skip
        at_chance = any(note.startswith("Learned nothing") for note in said)
        self.claim(at_chance == bool(self.so.at_chance()), f"at chance: {self.so.at_chance()}", str(said))
        for name, start in due.items():
            there = any(troubled(row, name) for spot, rows in self.so.of.items() if spot[2] is None for row in rows.values())
            self.claim(any(note.startswith(start) for note in said) == there, f"{name} is {there}", str(said))
        for note in said:
            form = next((form for form in readings if re.fullmatch(form, note)), None)
            if form is None:
                self.claim(False, "no reading of a note", note)
                continue
            of = re.fullmatch(form, note)
            readings[form](of[1] if of and of.groups() else "")
        attackers = (
            {"Attackers: " + "; ".join(f"{a}: 1 of 4 clients" for a in so) + "."} if (so := self._attacks()) else set[str]()
        )
        self.claim({note for note in said if note.startswith("Attackers: ")} == attackers, f"attackers: {attackers}", str(said))
        self._no_result([note.removeprefix("No result: ") for note in said if note.startswith("No result: ")])

    def _attacks(self) -> list[str]:
        """Those of which some run is done, on which data where not on all."""
        t, found = self.so, list[str]()
        for attack in t.attacks:
            on = [d for d in t.about["data"] if any(t.done(b, m, attack) for b in t.blocks if b[0] == d for m in t.methods)]
            found += [attack] if len(on) == len(t.about["data"]) else [f"{attack} on {d}" for d in on]
        return found

    def _told(self, name: str) -> dict[str, list[Row]]:
        t = self.so
        rows = {(b, m): [r for r in t.done(b, m) if troubled(r, name)] for b in t.blocks for m in t.methods}
        return {f"{m} on {b[0]} under {b[1]}": of for (b, m), of in rows.items() if of}

    def _who(self, name: str, words: str) -> None:
        so = self._told(name)
        told = {re.sub(r" \(seeds? .+?\)$", "", one): one for one in outside_brackets(words)}
        self.claim([*told] == [*so], f"{name}: {[*so]}", words)
        for place, one in told.items():
            seeds = re.findall(r"\d+", (re.search(r" \(seeds? ([\d, ]+)", one) or ["", ""])[1])
            so_ = [str(row["seed"]) for row in so.get(place, ())]
            self.claim(name == "doubts" or seeds == so_, f"seeds {so_}", one)

    def _over_whom(self, words: str | None) -> None:
        """The yardstick, if it is among the methods."""
        there = self.so.yardstick in self.so.methods
        self.claim((words or "").startswith(f"Over {self.so.yardstick}: ") if there else not words, "over whom", words or "")

    def _nothing(self, words: str) -> None:
        places, remedy = self._remedied(words)
        self._who("nothing", places)
        self.claim(remedy == all(map(self.so.learned, {b for b, _ in self.so.spots("nothing")})), "others learned", words)

    def _at_chance(self, words: str) -> None:
        places, remedy = self._remedied(words)
        so = {f"{m} on {b[0]} under {b[1]}": mean for (b, m), mean in self.so.at_chance().items()}
        told = [re.fullmatch(rf"(.+) \((\d+\.\d) %, as {GUESS} is 12\.0 %\)", one) for one in outside_brackets(places)]
        self.claim([one[1] if one else "" for one in told] == [*so], f"at chance: {so}", words)
        self.claim(all(one and near(one[2], so.get(one[1], 9.0)) for one in told), f"at chance: {so}", words)
        self.claim(remedy == all(map(self.so.learned, {b for b, _ in self.so.at_chance()})), "others learned", words)

    def _remedied(self, words: str) -> tuple[str, bool]:
        """The places, and whether others are said to have learned."""
        found = re.fullmatch(r"(.+?)\. (Others here learned from the same data, so look at the method first, and at its"
                             r" training\.lr|More rounds, or another training\.lr, may help)", words)  # fmt: skip
        if found is None:
            self.claim(False, "no reading of a remedy", words)
            return words, False
        return found[1], found[2].startswith("Others")

    def _withheld(self, words: str) -> None:
        so = self._told("first_withheld")
        told = [re.fullmatch(r"(.+) in (?:(\d+) to )?(\d+) of 20 rounds \(seeds? ([\d, ]+); (?:first )?in round (\d+)"
                             r"(?: of seed (\d+))?: too few\)", one) for one in outside_brackets(words)]  # fmt: skip
        self.claim([one[1] if one else "" for one in told] == [*so], f"withheld: {[*so]}", words)
        for one in told:
            rows = so.get(one[1], []) if one else []
            if one is None or not rows:
                continue
            counts = [row["withheld"] for row in rows]
            self.claim((int(one[2] or one[3]), int(one[3])) == (min(counts), max(counts)), f"{counts} rounds", one[0])
            first = {row["seed"]: row["first_withheld"]["round"] for row in rows}
            self.claim([*map(int, one[4].split(", "))] == [*first], f"seeds {first}", one[0])
            of = {int(one[6]): int(one[5])}.items() <= first.items() if one[6] else {*first.values()} == {int(one[5])}
            self.claim(of, f"first rounds {first}", one[0])

    def _no_result(self, said: list[str]) -> None:
        t, so = self.so, set[str]()
        for block in t.blocks:
            for m in t.methods if block[1] in t.about["attacked"] else ():
                lacks = (a for a in t.attacks if t.done(block, m) and not t.whole(block, m, a))
                so |= {f"{a} on {m}, {block[0]} under {block[1]}" for a in lacks}
        told = {place for one in said for place in re.findall(r"(\S+ on \S+, \S+ under \w+)", one)}
        self.claim(told == so, f"no result: {so ^ told}", str(said))


def page(found: Found, reader: Reader) -> None:
    """The whole page, with its first sentences and its verdicts as the text has them."""
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", render(found))))
    for words in (*sentences(found).places[0][1], *sentences(found).notes, fits_words(found, fits(found))):
        reader.claim(re.sub(r"\s+", " ", words) in text, "not on the page", words)
    reader.claim(all(line in markdown(found) for line in [headline(found).split(" (")[0]]), "not in table.md", headline(found))


# --- changes ------------------------------------------------------------------------------------------------------------


def renamed(table: Compare, names: dict[str, str]) -> Compare:
    about: Row = deepcopy(table.about)
    for kind in ("methods", "attacks"):
        about[kind] = {names.get(name, name): of for name, of in about[kind].items()}
    about["yardstick"] = names.get(about["yardstick"], about["yardstick"])
    rows = [row | {n: names.get(row[n], row[n]) for n in ("attack", "method") if row[n]} for row in table.rows]
    return Compare(about, rows)


def shuffled(table: Compare, rng: Random) -> Compare:
    return Compare(table.about, rng.sample([*table.rows], len(table.rows)))


def doubled(table: Compare) -> Compare:
    """Every seed once more, with the same numbers."""
    more = [row | {"seed": row["seed"] + 100, "key": row["key"] + "d"} for row in table.rows]
    about = table.about | {"seeds": [*table.about["seeds"], *(seed + 100 for seed in table.about["seeds"])]}
    return Compare(about | {"keys": [*about["keys"], *(key + "d" for key in about["keys"])]}, [*table.rows, *more])


def worsened(table: Compare, rng: Random) -> tuple[Compare, Row] | None:
    """One run without attack with less accuracy, of all clients alike."""
    there = [k for k, row in enumerate(table.rows) if row["attack"] is None and row["status"] == "done" and
             number(row, "accuracy", "mean") == number(row, "accuracy", "mean")]  # fmt: skip
    if not there:
        return None
    k, by = rng.choice(there), rng.uniform(0.01, 0.4)
    row: Row = deepcopy(table.rows[k])
    of = {i: max(0.0, v - by) for i, v in row["accuracy"]["of"].items()}
    row["accuracy"] = {"mean": mean_of(of.values()), "worst": min(of.values()), "of": of}
    return Compare(table.about, [*table.rows[:k], row, *table.rows[k + 1 :]]), row


def failing(table: Compare, rng: Random) -> tuple[Compare, Row] | None:
    """One run, and those under attack that follow it, with an error."""
    there = [row for row in table.rows if row["status"] == "done" and row["attack"] is None]
    if not there:
        return None
    one = rng.choice(there)
    spot = [one[name] for name in ("data", "method", "protection", "seed")]
    rows = [row if [row[n] for n in ("data", "method", "protection", "seed")] != spot else
            {n: row[n] for n in ("key", "data", "method", "protection", "seed", "configuration", "attack")}
            | {"status": "failed", "reason": "no"} for row in table.rows]  # fmt: skip
    return Compare(table.about, rows), one
