"""What a recording holds beside arrays, as frozen dataclasses of plain values that name the arrays they belong to."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...crypto.prg import KEY_BYTES
from ...fl.runs.codec import from_plain, to_plain
from ...protocol.pairs.question import PairAnswers
from ...protocol.view.answers import BelowFloor, Owner, Remembered, Sum, Work
from .recording_arrays import ExamplesLine
from .recording_truth import TruthLine
from .view import Answered, Compared, MaskKey, MaskKeys, PublishedSum

ANSWERS: Mapping[str, Any] = {
    "accumulate": Remembered,
    "choose": Mapping[int, str],
    "coordinates": Sum | BelowFloor,
    "pairs": PairAnswers,
    "personal_sums": Mapping[int, Sum | BelowFloor],
    "slots": tuple[Sum | BelowFloor, ...],
}
"""What answers to questions are, beside sums and inner products."""

KeyLines = Mapping[str, tuple[tuple[int, int, str], ...]]
"""Who shares the keys of masks, and they; keys and sessions in hexadecimal."""


@dataclass(frozen=True, slots=True)
class StartLine:
    """What a client started from."""

    round: int
    client: int
    vector: str


@dataclass(frozen=True, slots=True)
class SumLine:
    """A published sum. mean: the name of its vector."""

    round: int
    cluster: str
    kind: Work
    row: Mapping[int, float]
    times_samples: bool
    to: Owner | int
    mean: str | None
    weight: float
    energy: float | None
    missing: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: PublishedSum, mean: str | None) -> "SumLine":
        row = {int(i): float(a) for i, a in found.row.items()}
        beside = float(found.weight), None if found.energy is None else float(found.energy)
        missing = tuple(sorted(map(int, found.missing)))
        return cls(found.round, found.cluster, found.kind, row, found.times_samples, found.to, mean, *beside, missing)


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """Inner products. matrix: the name of their array."""

    round: int
    kind: Work
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    matrix: str
    origin: bool
    asked: str

    @classmethod
    def of(cls, found: Compared, matrix: str) -> "ComparedLine":
        rows, columns = tuple(map(int, found.rows)), tuple(map(int, found.columns))
        return cls(found.round, found.kind, rows, columns, matrix, found.origin, found.asked)


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """Any other answer. value: its JSON, of the type that `ANSWERS` has for the question."""

    round: int
    asked: str
    value: str


@dataclass(frozen=True, slots=True)
class Lines:
    """The whole of it.

    scenario: what of it is code, as text. messages: kinds that there may be. frame_kinds: names of those that were sent.
    arrived_kinds: of those that came in the place of others; changed: (place of a frame, how many came in its place), in order.
    apart: (round, client) of starts that no server holds.
    left_out: answers that could not be written, "question in round t". seeds, pair_keys,
    pair_seeds: hexadecimal, by client. opened, mask_keys: of masks, by session. foreign: as in `Truth`.
    meters: JSON, after so many rounds. ran_out: clients with rounds. privacy: JSON.
    """

    run: str
    initial: str
    scenario: str
    rounds: int
    clients: tuple[int, ...]
    classes: int
    auxiliary: ExamplesLine
    messages: tuple[int, ...]
    owner: Owner
    frame_kinds: tuple[str, ...]
    starts: tuple[StartLine, ...]
    sums: tuple[SumLine, ...]
    compared: tuple[ComparedLine, ...]
    answered: tuple[AnswerLine, ...]
    left_out: tuple[str, ...]
    seeds: Mapping[int, str]
    truth: TruthLine
    meters: tuple[tuple[int, str], ...]
    released: Mapping[int, str]
    groups: tuple[int, ...]
    pair_keys: Mapping[int, Mapping[str, str]]
    pair_seeds: Mapping[int, str]
    ran_out: tuple[tuple[int, int], ...]
    privacy: str
    arrived_kinds: tuple[str, ...]
    changed: tuple[tuple[int, int], ...]
    apart: tuple[tuple[int, int], ...]
    opened: KeyLines
    mask_keys: KeyLines
    foreign: tuple[str, ...]


def key_lines(keys: MaskKeys) -> KeyLines:
    """Keys of masks as lines."""
    return {session.hex(): tuple((k.a, k.b, k.key.hex()) for k in of) for session, of in keys.items()}


def keys_of(lines: KeyLines) -> MaskKeys:
    """The keys. Raises ValueError for what are none."""
    found = {bytes.fromhex(s): tuple(MaskKey(a, b, bytes.fromhex(key)) for a, b, key in of) for s, of in lines.items()}
    if any(len(k.key) != KEY_BYTES for of in found.values() for k in of):
        raise ValueError(f"a key of a mask has {KEY_BYTES} bytes")
    return found


def answer_lines(answered: Iterable[Answered]) -> tuple[tuple[AnswerLine, ...], tuple[str, ...]]:
    """Answers as lines, and those that are none of `ANSWERS`, in words."""
    lines, left_out = list[AnswerLine](), list[str]()
    for one in answered:
        try:
            plain = to_plain(one.value)
            from_plain(ANSWERS[one.asked], plain)
        except (KeyError, ValueError):
            left_out.append(f"{one.asked} in round {one.round}")
        else:
            lines.append(AnswerLine(one.round, one.asked, json.dumps(plain)))
    return tuple(lines), tuple(left_out)


def answered_of(line: AnswerLine) -> Answered:
    """The answer. Raises ValueError for what is none."""
    if line.asked not in ANSWERS:
        raise ValueError(f"there is no question {line.asked[:64]!r}")
    return Answered(line.round, line.asked, from_plain(ANSWERS[line.asked], json.loads(line.value)))
