"""The report of one client of a run, from its own record: what it revealed, to whom, what it spent, refused and was sent, and
when it was not there.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..protocol.pairs.noise import OF
from .headings import Said, Tile
from .headline import up
from .own_bounds import IN_SUMS, bounded, differences_bounded
from .own_choices import choices, who_can_tell
from .own_company import others_changed, smallest_company
from .own_presence import absences, exact_without_it, is_left, outcome, rounds_of, without_it
from .own_second import absences_there
from .own_slots import zeros_named
from .own_words import BESIDE_COMPARED, COMPARED, COORDINATOR, KEYS, OF_DATA, SAID, SENT, TERMS, UPLOADED, WITHOUT_NOISE
from .page import environment, write_page
from .run_data import DASH, number

RECORD = "join.jsonl"
MOST = 200
"""Rows of what was refused, of when it was away, and of rounds."""
MEASURES = "How far all sums isolate it, the coordinator's report measures; this record has no sums without it."
CHOSE = " Which models it chose it revealed, too: who can tell that, is said below."


@dataclass(frozen=True, slots=True)
class Row:
    """What a client sent of one kind."""

    kind: str
    words: str
    to: str
    times: int
    bytes: int


def is_record(folder: Path) -> bool:
    """Whether the folder is a client's."""
    return (folder / RECORD).is_file()


def write_client_report(folder: Path) -> Path:
    """Writes `folder`/report.html from the client's record and returns its path; it can be read by its owner alone.

    Raises ValueError for a record that none of a client's is.
    """
    page = write_page(folder, render(read_record(folder / RECORD)))
    page.chmod(0o600)
    return page


def read_record(path: Path) -> list[Mapping[str, Any]]:
    """Its lines. One at the end that was cut off is left out. Raises ValueError."""
    found: list[Mapping[str, Any]] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for k, text in enumerate(lines):
        try:
            line = json.loads(text)
        except ValueError:
            if k + 1 < len(lines):
                raise ValueError(f"line {k + 1} of {path} cannot be read") from None
            break
        if not isinstance(line, dict):
            raise ValueError(f"line {k + 1} of {path} is not what a client wrote")
        found.append(line)
    if not any("joined" in line for line in found):
        why = next((f": {line['left']}" for line in reversed(found) if isinstance(line.get("left"), str)), "")
        raise ValueError(f"{path} is the record of a client that took part in nothing{why}")
    return found


def render(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page as text. Everything that comes from the record is escaped by the template."""
    joined = [line for line in lines if "joined" in line]
    starts = sum("started" in line for line in lines) or len(joined)
    last, protection = joined[-1], str(joined[-1].get("protection", DASH))
    lines = [_sketches_named(line) for line in lines] if protection.startswith(IN_SUMS) else lines
    lines = zeros_named(lines)
    compared, shared = compared_by(last), compared_by(last, "shared")
    rows = revealed(lines, protection, compared.get("tells", ""))
    refused = [{"time": line.get("time", ""), **of} for line in lines for of in line.get("refused", ())]
    learned = [name for line in lines for name in line.get("learned", ())]
    spent: Mapping[str, Any] = next((line["spent"] for line in reversed(lines) if "spent" in line), {})
    got = received(lines, shared.get("mean", ""))
    models = sum(bool((line.get("received") or {}).get("model")) for line in lines)
    away, rounds, chosen = absences(lines), rounds_of(lines), choices(lines)
    took = sum(of.last - of.first + 1 for of in rounds if of.words.startswith("its update"))
    others = [without_it(rounds, protection, is_left(lines)), others_changed(lines, protection)]
    subtracts = any("subtract them" in words for words in others)
    noise, measures = (differences_bounded(spent), MEASURES) if subtracts else ("", "")
    apart = " ".join(filter(None, [*others, noise, exact_without_it(lines, rounds), measures]))
    differs: Mapping[str, Any] = next((line["differs"] for line in reversed(lines) if "differs" in line), {})
    otherwise = "; ".join(f"{field} is {differing(of)}" for field, of in differs.items())
    withheld = sorted({str(line["withheld"]) for line in lines if "withheld" in line})
    sent, sent_to_it = {row.kind: row.times for row in rows}, {row.kind for row in got}
    parameters = last.get("parameters")
    bounds = bounded(protection, sent, sent_to_it, parameters if type(parameters) is int and parameters > 0 else 0)
    revealing = in_short(rows, spent)
    ended = outcome(lines, f"a run of {len(last.get('clients', ()))} clients under {protection.partition('(')[0]}")
    chose = CHOSE if chosen else ""
    company = smallest_company(lines, protection)
    first = [ended, failures(lines), _otherwise(differs), f"{revealing}{chose}"]
    together = compared.get("together", "") if sent.keys() & COMPARED else ""
    of_all = (shared.get("others", ""), together, bounds, company)
    paragraphs = [" ".join(filter(None, several)) for several in (first, of_all, (apart,))]
    return (
        environment()
        .get_template("own_record.html.j2")
        .render(
            kind="client report",
            title=f"Client {last.get('client', DASH)}",
            said=Said(tuple((words, ()) for words in paragraphs if words)),
            tiles=[
                Tile("messages sent", str(sum(row.times for row in rows)), f"{len(rows)} kinds"),
                Tile("bytes sent", grouped(sum(row.bytes for row in rows))),
                Tile(
                    "messages with a model or a mean",
                    str(models),
                    f"{grouped(sum(row.bytes for row in got))} bytes of all messages",
                ),
                Tile("rounds", str(took), "with its update in the protocol"),
                Tile("refused", str(len(refused)), "words and messages"),
                Tile("away", str(len(away)), f"time{'s' * (len(away) != 1)}; started {starts} time{'s' * (starts != 1)}"),
            ],
            rows=rows,
            chosen=chosen[-MOST:],
            who_can_tell=who_can_tell(lines, protection),
            withheld=withheld,
            spent=[{"unit": unit, **_numbers(of)} for unit, of in spent.items()],
            received=got,
            away=away[-MOST:],
            second=None if (second := absences_there(lines)) is None else second[-MOST:],
            rounds=rounds[-MOST:],
            learned=sorted({name: learned.count(name) for name in learned}.items()),
            refused=refused[-MOST:],
            differs=otherwise,
            earlier=max(0, len(refused) - MOST),
            about=[
                ("run", str(last["joined"])),
                ("protection", protection),
                ("trained on", trained_on(last)),
                *(("and before on other data", words) for words in other_data(joined)),
                *((f"{field} differs", differing(of)) for field, of in differs.items()),
                ("clients", ", ".join(map(str, last.get("clients", ())))),
                ("joined", ", ".join(str(line.get("time", DASH)) for line in joined)),
                ("last line", str(lines[-1].get("time", DASH))),
            ],
        )
    )


def _otherwise(differs: Mapping[str, Any]) -> str:
    """That the coordinator's scenario was another in what it works by; empty where it was not."""
    return f"It took part by a scenario that is another than its own in {', '.join(differs)}." if differs else ""


def in_short(rows: Sequence[Row], spent: Mapping[str, Any]) -> str:
    """What it revealed of its data, to whom, and what bounds it: the headline's second half."""
    told = [f"{row.words} ({messages_words(row.times)} to {row.to})" for row in rows if row.kind in OF_DATA]
    words = f"Of its data it revealed {'; '.join(told)}." if told else "It revealed nothing of its data."
    delta = {unit: f" at delta {number(of['delta']):g}" if "delta" in of else "" for unit, of in spent.items()}
    bounds = [f"{up(number(of.get('epsilon_worst')))}{delta[unit]} for a single {unit}" for unit, of in spent.items()]
    if bounds:
        booked = "" if told else ", booked before it was to be sent, and nothing of it was"
        said = f"{words} Epsilon of what stands under noise: {', '.join(bounds)}{booked}."
        without = [BESIDE_COMPARED if of.get("of") == OF else WITHOUT_NOISE.get(unit, ()) for unit, of in spent.items()]
        bare = [row.words for row in rows if any(row.kind in kinds for kinds in without)]
        return f"{said} It does not bound what has no noise: {'; '.join(bare)}." if bare else said
    return f"{words} No epsilon bounds it." if told else words


def _sketches_named(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Under a protection that shows no update, what is uploaded as it is is a sketch of one."""
    if not any(one.get("what") == "Upload" for one in line.get("revealed", ())):
        return line
    named = [{**one, "what": "Upload, sketch"} if one.get("what") == "Upload" else one for one in line["revealed"]]
    return {**line, "revealed": named}


def messages_words(count: int) -> str:
    """How many: a round may take several."""
    return "1 message" if count == 1 else f"{grouped(count)} messages"


def trained_on(joined: Mapping[str, Any]) -> str:
    """In words; a record of before may not say it."""
    return f"{joined['data']}, {joined.get('records', DASH)} records" if "data" in joined else DASH


def failures(lines: Sequence[Mapping[str, Any]]) -> str:
    """That its work ended in errors, and what the first was; empty where none did."""
    found = [line for line in lines if "failed" in line]
    if not found:
        return ""
    times = f"{len(found)} times, first in" if len(found) > 1 else "in"
    return f"Its training failed {times} round {found[0].get('round', DASH)}: {found[0]['failed']}."


def other_data(joined: Sequence[Mapping[str, Any]]) -> list[str]:
    """What else it trained on in the last run that it joined: its data may be others when it is started again."""
    own = [line for line in joined if line["joined"] == joined[-1]["joined"] and "data_sha256" in line]
    found = {line["data_sha256"]: f"{trained_on(line)}, joined {line.get('time', DASH)}" for line in own}
    found = {of: words for of, words in found.items() if of != own[-1]["data_sha256"]}
    return list(found.values())


def differing(of: Sequence[str | None]) -> str:
    """Of a field: its value at the coordinator and here."""
    there, here = (DASH if value is None else value for value in of)
    return f"{there} at the coordinator, {here} here"


def grouped(number: int) -> str:
    """12345 is "12 345"."""
    return f"{number:,}".replace(",", " ")


def compared_by(joined: Mapping[str, Any], kind: str = "compared") -> Mapping[str, str]:
    """What it tells of its data to be compared, and who reads more in it, in words; empty where it is not compared. kind: of
    "shared", what means are that it is sent, and who else is told what of it; empty where means are of updates.
    """
    found = joined.get(kind)
    return {name: words for name, words in found.items() if type(words) is str} if isinstance(found, dict) else {}


def revealed(lines: Sequence[Mapping[str, Any]], protection: str, compared: str = "") -> list[Row]:
    """What it sent, by kind; what says something of its data comes first. compared: what it is compared by, in words."""
    times: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for line in lines:
        for one in line.get("revealed", ()):
            kind = str(one.get("what", DASH))
            times[kind] = times.get(kind, 0) + 1
            sizes[kind] = sizes.get(kind, 0) + int(one.get("bytes", 0))
    order = {kind: k for k, kind in enumerate(("Upload", *SAID))}
    rows = [Row(kind, *_words(kind, protection, compared), times[kind], sizes[kind]) for kind in times]
    return sorted(rows, key=lambda row: (order.get(row.kind, len(order)), row.kind))


def received(lines: Sequence[Mapping[str, Any]], mean: str = "") -> list[Row]:
    """What it was sent, by kind; what brings models and sums comes first. mean: what a Mean is, in words, where that is known."""
    times, sizes = dict[str, int](), dict[str, int]()
    for line in lines:
        if one := line.get("received"):
            kind = str(one.get("what", DASH))
            times[kind] = times.get(kind, 0) + 1
            sizes[kind] = sizes.get(kind, 0) + int(one.get("bytes", 0))
    order = {kind: k for k, kind in enumerate(SENT)}
    words = {**SENT, "Mean": mean} if mean else SENT
    rows = [Row(kind, words.get(kind, TERMS), "", times[kind], sizes[kind]) for kind in times]
    return sorted(rows, key=lambda row: (order.get(row.kind, len(order)), row.kind))


def _words(kind: str, protection: str, compared: str) -> tuple[str, str]:
    if kind == "PairClouds" and compared:
        return f"to be compared: {compared}", COORDINATOR
    if kind == "Upload":
        of = next((words for name, words in UPLOADED.items() if protection.startswith(name)), "the result of its work")
        return of, COORDINATOR
    return SAID.get(kind) or SAID.get(kind.partition(",")[0], KEYS)


def _numbers(of: Mapping[str, Any]) -> dict[str, Any]:
    words = {key: str(of.get(key, "")) for key in ("of", "beside", "adjacency", "accountant")}
    numbers = {key: number(of.get(key)) for key in ("budget", "delta", "epsilon_worst")}
    left = numbers["budget"] - numbers["epsilon_worst"]
    known = left if math.isfinite(left) else math.nan
    return {**words, **numbers, "left": known, "not_covered": [str(w) for w in of.get("not_covered") or ()]}
