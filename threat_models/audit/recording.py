"""Recorded runs as folders: written when a run is over, and read to be audited.

`frames.safetensors` holds what was sent, one after the other, and who sent it to whom; `seen.safetensors` vectors, matrices and
examples that are part of what somebody sees; `recording.json` all else of that (recording_lines.py). `truth.safetensors` holds
what nobody sees whole: all clients' examples and updates. `SHA256SUMS` are of all files, so damage is noticed. No file is code or
a pickle.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as unpacked
from safetensors.numpy import save as packed

from ...fl.models.papers import initial
from ...fl.models.vector import dimension, load_vector, to_vector
from ...fl.runs.codec import from_plain, to_plain
from ...fl.runs.scenario import Scenario, described
from ...fl.runs.simulation import seed_of
from ...protocol.core.link import Frame
from ...protocol.messages import MESSAGES
from .recorded import Recorded
from .recording_arrays import Arrays, Kept, examples_in, frames_in, keep_examples, keep_frames
from .recording_checks import check_examples, check_lines, check_model, check_whole
from .recording_lines import ComparedLine, Lines, StartLine, SumLine, answer_lines, answered_of, key_lines, keys_of
from .recording_truth import keep_truth, truth_in
from .view import Compared, Public, PublishedSum

FORMAT = 2
SUMS = "SHA256SUMS"
FILES = ("recording.json", "frames.safetensors", "seen.safetensors", "truth.safetensors")
ARRIVED = "arrived "
"""What the names of the arrays of frames begin with that came in the place of others."""
MOST_TEXT, MOST_ARRAYS = 2**28, 2**36
"""Bytes of a file of text, or of arrays, that are read. What arrays take is no more than the bytes of their files."""
CLOSE = 1e-3
"""By how much the scenario's initial model may differ from the recorded one: processors round differently."""


def save(recorded: Recorded, folder: Path, beside: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """Write a run that is over into a new folder, with further files `beside`. Raises ValueError if the folder is there.

    Of `answered` every answer is written that a view of today gives. Others would be left out, and listed in recording.json.
    """
    if folder.exists():
        raise ValueError(f"{folder} is there already; a recording is written once")
    building = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    sums = []
    for name, content in {**_contents(recorded), **beside}.items():
        with open(building / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (building / SUMS).write_text("".join(sums))
    building.rename(folder)


def _contents(recorded: Recorded) -> dict[str, bytes]:
    seen, truth, frames = Kept(), Kept(), Kept()
    public = recorded.public
    answered, left_out = answer_lines(recorded.answered)
    arrived = sorted(recorded.arrived.items())
    lines = Lines(
        run=public.run.hex(),
        initial=seen.add(public.initial),
        scenario=_described(public),
        rounds=public.rounds,
        clients=public.clients,
        classes=public.classes,
        auxiliary=keep_examples(seen, public.auxiliary),
        messages=tuple(sorted(public.kinds)),
        owner=recorded.owner,
        frame_kinds=keep_frames(frames, recorded.frames),
        starts=tuple(StartLine(t, i, seen.add(v)) for (t, i), v in recorded.starts.items()),
        sums=tuple(SumLine.of(s, None if s.mean is None else seen.add(s.mean)) for s in recorded.sums),
        compared=tuple(ComparedLine.of(c, seen.add(c.matrix)) for c in recorded.compared),
        answered=answered,
        left_out=left_out,
        seeds={i: seed.hex() for i, seed in recorded.seeds.items()},
        truth=keep_truth(truth, recorded.truth),
        meters=tuple((t, json.dumps(of)) for t, of in recorded.meters),
        released={int(i): seen.add(v) for i, v in recorded.released.items()},
        groups=tuple(map(int, public.groups)),
        pair_keys={i: {d.hex(): key.hex() for d, key in keys.items()} for i, keys in recorded.pair_keys.items()},
        pair_seeds={i: seed.hex() for i, seed in recorded.pair_seeds.items()},
        ran_out=tuple(recorded.ran_out.items()),
        privacy=json.dumps(recorded.privacy),
        arrived_kinds=keep_frames(frames, [f for _, came in arrived for f in came], ARRIVED),
        changed=tuple((place, len(came)) for place, came in arrived),
        apart=tuple(sorted(recorded.apart)),
        opened=key_lines(recorded.opened),
        mask_keys=key_lines(recorded.truth.mask_keys),
        foreign=recorded.truth.foreign,
    )
    text = json.dumps({"format": FORMAT, "lines": to_plain(lines)}).encode()
    return dict(zip(FILES, (text, *(packed(kept.arrays) for kept in (frames, seen, truth))), strict=True))


def load(folder: Path, scenario: Scenario) -> Recorded:
    """The run that was saved there; scenario: that it was a run of, which says what is code: model, training, protection.

    Takes memory of a few times the size of the files, whatever is in them. Raises ValueError of one line where the folder holds
    none, is not what was written, or is of another scenario.
    """
    contents = files_of(folder)
    try:
        plain = json.loads(contents["recording.json"])
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise ValueError(f"recording.json is not of format {FORMAT}")
        lines: Lines = from_plain(Lines, plain["lines"])
        frames, seen, truth = (Arrays(unpacked(contents[name]), name) for name in FILES[1:])
        return _recorded(lines, frames, seen, truth, scenario)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError, SafetensorError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ValueError(f"the recording {folder} cannot be read: {reason}") from None


def files_of(folder: Path) -> dict[str, bytes]:
    """The folder's files by name, as their hashes say they were written. Raises ValueError of one line."""
    if not (folder / SUMS).is_file():
        raise ValueError(f"{folder} holds no recording")
    listed = [line.partition("  ") for line in _read(folder / SUMS, MOST_TEXT).decode("utf-8", "replace").splitlines()]
    wanted = {name: digest for digest, _, name in listed}
    if not set(FILES) <= wanted.keys() or any(Path(name).name != name for name in wanted):
        raise ValueError(f"the recording {folder} is damaged: {SUMS} does not list its files")
    found = {}
    for name, digest in wanted.items():
        try:
            found[name] = _read(folder / name, MOST_ARRAYS if name.endswith(".safetensors") else MOST_TEXT, digest)
        except OSError:
            raise ValueError(f"the recording {folder} is damaged: {name} is missing") from None
    return found


def _read(path: Path, most: int, digest: str | None = None) -> bytes:
    """The whole of a regular file of so many bytes at most; no more is read of what is none, or grows. Raises ValueError, also
    where its SHA-256 is not this one, and takes no memory then: a file may say that it is longer than a disk.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{path} is no regular file")
        if digest is not None and about.st_size <= most and hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise ValueError(f"the recording {path.parent} is damaged: {path.name} was changed")
        file.seek(0)
        found = file.read(min(about.st_size, most) + 1)
    if len(found) > most or len(found) != about.st_size:
        raise ValueError(f"{path} is longer than {most} bytes, or changes as it is read")
    return found


def _described(of: Any) -> str:
    """What of a run of this scenario is code, as text: two scenarios whose text differs are not the same."""
    return json.dumps({name: described(getattr(of, name)) for name in ("training", "algorithm", "protection")}, sort_keys=True)


def _recorded(lines: Lines, frames: Arrays, seen: Arrays, truth: Arrays, scenario: Scenario) -> Recorded:
    if lines.scenario != _described(scenario):
        raise ValueError("it is of a scenario with another algorithm, training or protection")
    if unknown := sorted(set(lines.messages) - MESSAGES.keys()):
        raise ValueError(f"there are no messages of kinds {unknown} in this release")
    true = truth_in(lines.truth, truth)
    population, start = true.population, seen.vector(lines.initial)
    if set(lines.clients) != population.clients.keys() or lines.seeds.keys() != population.clients.keys():
        raise ValueError("its clients are not those that it has examples of")
    check_lines(lines, scenario.rounds)
    auxiliary = examples_in(seen, lines.auxiliary)
    if len(lines.groups) != len(auxiliary):
        raise ValueError(f"it has the groups of {len(lines.groups)} public examples, and {len(auxiliary)} of these")
    check_examples(population, (auxiliary, true.outside, *true.compared.values()))
    check_model(scenario, population, len(start))
    module = initial(scenario.model, population.shape, population.classes, seed_of(scenario.seed, "model")).cpu()
    d = dimension(module)
    if len(start) < d or not np.allclose(to_vector(module), start[:d], atol=CLOSE):
        raise ValueError("it began with another model than the scenario's")
    load_vector(module, start[:d])
    public = Public(
        bytes.fromhex(lines.run),
        module,
        start,
        scenario.training,
        scenario.algorithm,
        scenario.protection,
        lines.rounds,
        lines.clients,
        lines.classes,
        auxiliary,
        MappingProxyType({kind: MESSAGES[kind] for kind in lines.messages}),
        np.array(lines.groups, np.int64),
    )
    starts = {(s.round, s.client): seen.vector(s.vector, len(start)) for s in lines.starts}
    found = Recorded(
        public,
        lines.owner,
        frames_in(frames, lines.frame_kinds),
        starts,
        tuple(_sum(s, seen) for s in lines.sums),
        tuple(_compared(c, seen) for c in lines.compared),
        tuple(map(answered_of, lines.answered)),
        {i: bytes.fromhex(seed) for i, seed in lines.seeds.items()},
        replace(true, starts=starts, mask_keys=keys_of(lines.mask_keys), foreign=lines.foreign),
        tuple((t, json.loads(of)) for t, of in lines.meters),
        {i: seen.vector(name) for i, name in lines.released.items()},
        {i: {bytes.fromhex(d): bytes.fromhex(key) for d, key in of.items()} for i, of in lines.pair_keys.items()},
        {i: bytes.fromhex(seed) for i, seed in lines.pair_seeds.items()},
        dict(lines.ran_out),
        _spent(lines.privacy),
        _arrived(lines, frames_in(frames, lines.arrived_kinds, ARRIVED)),
        frozenset(lines.apart),
        keys_of(lines.opened),
        lines.left_out,
    )
    check_whole(found)
    return found


def _arrived(lines: Lines, came: Sequence[Frame]) -> dict[int, tuple[Frame, ...]]:
    """What came in the place of which frames. Raises ValueError where the counts are not of so many."""
    ends = np.cumsum([count for _, count in lines.changed], dtype=np.int64).tolist()
    if min((count for _, count in lines.changed), default=0) < 0 or (ends[-1] if ends else 0) != len(came):
        raise ValueError("the frames that came do not fill their places")
    return {place: tuple(came[end - count : end]) for (place, count), end in zip(lines.changed, ends, strict=True)}


def _spent(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(of, dict) for of in found.values()):
        raise ValueError("what it says of privacy that was spent is no mapping")
    return found


def _sum(line: SumLine, seen: Arrays) -> PublishedSum:
    mean, missing = None if line.mean is None else seen.vector(line.mean), frozenset(line.missing)
    return PublishedSum(
        line.round, line.cluster, line.kind, line.row, line.times_samples, line.to, line.weight, line.energy, mean, missing
    )


def _compared(line: ComparedLine, seen: Arrays) -> Compared:
    matrix = seen.matrix(line.matrix)
    return Compared(line.round, line.kind, line.rows, line.columns, matrix, line.origin, line.asked)
