"""The sentences of a comparison, read as they stand and held against its lines alone: what is not so, and what no reading is
known of.
"""

import re
from collections.abc import Sequence
from statistics import fmean

from .compared_truth import Block, Lines
from .verdict_words import near, outside_brackets

ONE_SEED = "One seed tells nothing of chance, so no method is called better. Highest mean accuracy"
PERCENT = r"(\d+\.\d) %"
BLOCK = re.compile(
    rf"(.+?): (?:([^.;:(]+?), {PERCENT}(?: \(always saying the most frequent label has {PERCENT}\))?|"
    r"nobody has a result on every seed and of every client)(?:; (.+?))?\."
    r"( Not compared, as not every seed and client has a result: .+?\.)?((?: Under .+?\.)*)"
)


def listed(words: str) -> list[str]:
    return re.split(r", | and ", words)


class Reader:
    """Holds sentences against the lines; found: what is not so."""

    def __init__(self, lines: Lines) -> None:
        self.so, self.found = lines, list[str]()

    def claim(self, so: bool, what: str, sentence: str) -> None:
        if not so:
            self.found.append(f"{what} | {sentence}")

    # --- the first sentences ------------------------------------------------------------------------------------------

    def headline(self, words: str) -> None:
        t = self.so
        if words == "No verdict: not every cell is played yet.":
            return self.claim(not t.complete, "every cell is", words)
        self.claim(t.complete, "not every cell is played", words)
        words = self._unlike(words)
        one = len(t.seeds) == 1
        self.claim(words.startswith("One seed") == one, "seeds", words)
        starts = [f"{ONE_SEED} "] if one else ["Highest mean accuracy "]
        text = next((words.removeprefix(start) for start in starts if words.startswith(start)), None)
        if text is None:
            return self.claim(False, "no reading", words)
        parts = re.split(r" Highest mean accuracy (?=on )", text)
        self.claim(len(parts) == len(t.blocks), "a sentence for each block", words)
        for block, part in zip(t.blocks, parts, strict=False):
            self.block(block, part)
        return None

    def _unlike(self, words: str) -> str:
        """What is left without the sentence on who was not searched alike."""
        t, of = self.so, dict[int, list[str]]()
        for m in t.methods if t.about["search"] else ():
            of.setdefault(len(t.about["methods"][m]["configurations"]), []).append(m)
        rest, told, said = words.partition(" Not searched alike: ")
        self.claim(bool(told) == (len(of) > 1), f"searched {of}", words)
        found = [
            re.fullmatch(r"(.+?) (?:not at all|over (\d+)(?: configurations)?)", one) for one in said[:-1].split("; ") if one
        ]
        so = sorted(of.items(), reverse=True) if told else []
        self.claim([(int(one[2] or 1), listed(one[1])) if one else () for one in found] == so, f"searched {so}", words)
        return rest

    def block(self, block: Block, text: str) -> None:
        t = self.so
        found = BLOCK.fullmatch(text)
        if found is None:
            return self.claim(False, "no reading of a block", text)
        place, who, percent, guess, others, apart, under = found.groups()
        so = f"on {block[0]}" + f" under {block[1]}" * (len(t.about["protections"]) > 1) + " without attack" * bool(t.attacks)
        self.claim(place == so, f"place: {so}", text)
        of, best = t.compared(block), t.best(block)
        self.claim((listed(who) if who else []) == best, f"best: {best}", text)
        self.claim(not who or near(percent, fmean(of[best[0]])), "mean of the best", text)
        so = t.one_label(block)
        much = bool(so and who) and so >= 0.5 * fmean(of[best[0]])
        self.claim(bool(guess) == much and (not guess or near(guess, so)), f"a guess has {so}", text)
        self._others(block, others, [m for m in of if m not in best], [m for m in t.methods if m not in of], text)
        self._apart(block, None, [m for m in t.methods if m not in of], (apart or "").partition("result: ")[2][:-1], text)
        self._under(block, under, text)
        return None

    def _others(self, block: Block, others: str | None, rest: Sequence[str], apart: Sequence[str], text: str) -> None:
        t, said = self.so, dict[str, list[str]]()
        if len(t.seeds) == 1:
            return self.claim(not others, "one seed tells of others", text)
        if not t.best(block):
            return self.claim(not others, "others than nobody", text)
        if others in ("there is no other", "no other is compared"):
            return self.claim(not rest and bool(apart) == (others == "no other is compared"), f"others: {rest} {apart}", text)
        for part in (others or "").split("; "):
            found = re.fullmatch(r"(behind it|tied with it|(\d+) seeds cannot tell it from): (.+)", part)
            if found is None:
                return self.claim(False, "no reading of others", text)
            self.claim(not found[2] or int(found[2]) == len(t.seeds), "seeds", text)
            said[found[1].partition(" ")[0] if not found[2] else "undecided"] = found[3].split(", ")
        words = {"loss": "behind", "tie": "tied", "undecided": "undecided"}
        so: dict[str, list[str]] = {}
        for m in rest:
            so.setdefault(words.get(t.duel(block, m, t.best(block)[0]).outcome, "?"), []).append(m)
        return self.claim(said == so, f"others: {so}", text)

    def _apart(self, block: Block, attack: str | None, so: Sequence[str], said: str, text: str) -> None:
        """Who is not compared, with what there is of each."""
        t, told = self.so, [re.fullmatch(r"(.+?) \((.+)\)", one) for one in outside_brackets(said, ", ") if one]
        self.claim([one[1] if one else "?" for one in told] == [*so], f"not compared: {so}", text)
        for one in told:
            if one is None:
                return
            of, some, n = t.accuracies(block, one[1], attack), t.some(block, one[1], attack), len(t.seeds)
            found = re.fullmatch(rf"{PERCENT} on (\d+) of (\d+) seeds(, not of every client)?", one[2])
            if one[2] in ("no result", "not of every client"):
                so_ = not of if one[2] == "no result" else len(of) == n and some
                self.claim(so_, f"{one[1]} has {of}", text)
            elif found is None:
                self.claim(False, "no reading of what there is", text)
            else:
                self.claim((int(found[2]), int(found[3])) == (len(of), n) and len(of) < n, f"seeds: {of}", text)
                self.claim(near(found[1], fmean(of or [9])) and bool(found[4]) == some, f"{one[1]} has {of}, {some}", text)

    def _under(self, block: Block, said: str, text: str) -> None:
        """From whom to whom under each attack, and whom seeds do not tell from the first."""
        t, told = self.so, {}
        for sentence in re.split(r"(?<=\.) (?=Under )", said.strip()) if said else []:
            found = re.fullmatch(r"Under (\S+) (.+?)(?:; not compared: (.+))?\.", sentence)
            if found is None:
                return self.claim(False, "no reading under attack", text)
            told[found[1]] = found[2], found[3] or ""
        for attack in t.attacks if block[1] in t.about["attacked"] else ():
            of = {m: fmean(v) for m, v in t.compared(block, attack).items()}
            words, apart = told.pop(attack, ("", ""))
            rest = [m for m in t.methods if m not in of]
            if not words:
                self.claim(len(of) < 2 and not rest, f"nothing of {attack}", text)
                continue
            self._apart(block, attack, rest, apart, sentence)
            words, _, untold = words.partition("; ")
            all_ = re.fullmatch(rf"loyal clients have (?:from (.+), {PERCENT}, to (.+), {PERCENT}|{PERCENT} by (.+))", words)
            if words == "nobody is compared":
                self.claim(len(of) < 2, f"{of} are", text)
            elif all_ is None:
                self.claim(False, "no reading of whom", text)
            elif all_[6]:
                alike = listed(all_[6]) == [*of] and len({f"{100 * v:.9f}" for v in of.values()}) == 1
                self.claim(alike and len(of) > 1 and near(all_[5], max(of.values())), f"alike: {of}", text)
            else:
                top, least = (of.get(all_[k], 9.0) for k in (1, 3))
                ends = abs(top - max(of.values())) < 1e-9 and abs(least - min(of.values())) < 1e-9
                self.claim(ends and all_[1] != all_[3] and len(of) > 1, f"ends of {of}", text)
                self.claim(near(all_[2], top) and near(all_[4], least), f"ends of {of}", text)
                so = [m for m in of if m != all_[1] and t.duel(block, m, all_[1], attack).outcome in ("undecided", "tie")]
                so = so if len(t.seeds) > 1 else []
                like = f"{len(t.seeds)} seeds cannot tell {all_[1]} from {', '.join(so)}" if so else ""
                self.claim(untold == like, f"{so} are like {all_[1]} under {attack}", text)
        return self.claim(not told, f"attacks that were not played: {told}", text)

    # --- the yardstick ------------------------------------------------------------------------------------------------

    def fits(self, words: str) -> None:
        t = self.so
        places = [(m, b) for b in t.blocks for m in t.methods if b[0] in t.about["methods"][m]["fits"] and m != t.yardstick]
        places = places if t.yardstick in t.methods and t.complete else []
        there = [(m, b) for m, b in places if t.whole(b, m) and t.whole(b, t.yardstick)]
        if not words:
            return self.claim(not places, f"{places} fit", "nothing of the yardstick")
        first = f"As good as {t.yardstick} or better on data of the kind that a method is made for: "
        found = re.fullmatch(
            re.escape(first) + r"(?:(\d+) of (\d+) in the mean(?:, (which one seed does not tell from chance|(\d+) of them by"
            r" more than chance))?(?:; below it: (.+?))?(?:; nothing to tell it by: (.+))?|nothing to tell it by: (.+))\.", words,
        )  # fmt: skip
        if found is None:
            return self.claim(False, "no reading", words)
        count, of, tail, wins, below, nothing, *only = found.groups()
        lacking = [f"{m} on {b[0]} under {b[1]}" for m, b in places if (m, b) not in there]
        said = nothing or only[0]
        self.claim((said.split(", ") if said else []) == lacking, f"nothing of {lacking}", words)
        duels = {(m, b): t.duel(b, m, t.yardstick) for m, b in there}
        good = [d for d in duels.values() if d.gap >= -1e-12]
        self.claim((int(count or 0), int(of or 0)) == (len(good), len(there)), f"{len(good)} of {len(there)}", words)
        self.claim(bool(tail) == bool(good) and (not tail or bool(wins) == (len(t.seeds) > 1)), "chance", words)
        won = sum(d.outcome == "win" for d in good)
        self.claim(not wins or int(wins) == won, f"{won} by more than chance", words)
        told = [re.fullmatch(r"(.+) on (.+) under (.+) \(([\u2212+]?\d+\.\d), (.+)\)", one) for one in
                outside_brackets(below or "", ", ") if one]  # fmt: skip
        short = {(m, *b): d for (m, b), d in duels.items() if d.gap < -1e-12}
        self.claim([(one[1], one[2], one[3]) if one else () for one in told] == [*short], f"below: {[*short]}", words)
        for one in (one for one in told if one):
            d = short.get((one[1], one[2], one[3]))
            so = d and {"loss": "by more than chance"}.get(d.outcome, d.outcome)
            self.claim(d is not None and near(one[4].replace("\u2212", "-"), d.gap) and one[5] == so, f"{d}", words)
        return None

    # --- tables -------------------------------------------------------------------------------------------------------

    def cell(self, block: Block, method: str, attack: str | None, words: str) -> None:
        """Accuracy as a cell has it: "80.0 ±0.1, not all seeds", or why there is none."""
        t = self.so
        of, some = t.accuracies(block, method, attack), t.some(block, method, attack)
        lost, what = (t.lost(block, method, attack), "under attack") if attack else ([], "cell")
        if not of:
            return self.claim(not re.match(r"\d", words), f"{what} of nothing", words)
        found = re.fullmatch(
            r"(\d+\.\d)(?: ±(\d+\.\d)| \((\d+\.\d) and (\d+\.\d)\))?(?: \(([+\u2212]?\d+\.\d|\u2013)(?: on (\d+) of (\d+)"
            r" seeds)?\))?( \(nothing summed\))?(, not all (?:seeds|clients|seeds and clients))?(?:, opens (\d+) %(?: on (\d+)"
            r" of (\d+) seeds)?)?", words,
        )  # fmt: skip
        if found is None:
            return self.claim(False, f"no reading of a {what}", words)
        self.claim(near(found[1], fmean(of)), f"{what}: {of}", words)
        self.claim(bool(found[2]) == (len(of) > 2) and bool(found[3]) == (len(of) == 2), f"{what} of seeds: {of}", words)
        lacks = found[9] or ""
        self.claim(("seeds" in lacks) == (len(of) < len(t.seeds)), f"{what}: seeds {of}", words)
        self.claim(("clients" in lacks) == some, f"{what}: not all clients is {some}", words)
        if attack and lost:
            self.claim(near((found[5] or "9").replace("\u2212", "-"), -fmean(lost)), f"lost {lost}", words)
            so = (len(lost), len(of)) if len(lost) < len(of) else (0, 0)
            self.claim((int(found[6] or 0), int(found[7] or 0)) == so, f"lost on {so}", words)
        elif attack:
            self.claim(found[5] == "\u2013", "nothing is known to be lost", words)
        return None
