"""Whether the seed that clients share is one that one of them drew, and their sketches are of their updates under its keys.

How the seed, and of it the key of a session, follows is written out here once more, as in own_secrets.py: an audit holds
clients against what their code should do. Looked at are sketches of a session's own work; those beside a split's, and those that
recall older work, are not. Of who begins from a model beside the public one they are of all that lies between that and the end.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...crypto.offset_sketch import LARGEST, MARGIN, OffsetSketch
from ...crypto.prg import derive_key
from ...crypto.projection import TwoStage
from ...protocol.core.session import Session
from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.protection import Masked
from ...protocol.parts.offset_sketches import from_words
from ...protocol.view.account import kind_of, source_of
from ...protocol.view.answers import COMPUTED, OFFSET_AS, SKETCHED_AS, Vector
from ...protocol.view.work import LocalWork
from ...protocol.wire.messages import OffsetSketched, Task, Upload
from ...protocol.work.tasks import from_own
from ...protocol.work.uploads import from_bytes
from .reading import Instance, messages, sessions
from .view import CorruptView

Started = tuple[Vector, LocalWork]
"""What a client began from, float32 (d,), and what it computed."""
CLOSE = 1e-3
"""Of an update's norm, by how much a coordinate of its sketch may be another: processors round differently."""
JOINED = 4
"""How often a client joins the exchange of the seed, at most, with a fresh secret each time."""
PROTOCOLS = {Masked: "masked", Encrypted: "encrypted"}
"""What clients share a seed for."""
SEED = "the seed that clients share"
WORKS = {*OFFSET_AS.values(), *SKETCHED_AS.values()}


def sketched_of(view: CorruptView, worked: Mapping[Instance, Started], models: Mapping[str, Vector]) -> dict[Instance, Vector]:
    """What clients should sketch: float32 (d,). view: of all frames as they were sent. models: that the server held, by name.

    Nothing of who began beside a public model that is not among them.
    """
    public: dict[Instance, str] = {}
    for frame, envelope in messages(view, Task):
        task = envelope.message
        if task.work in COMPUTED and from_own(task):
            public[task.round, kind_of(task.work), frame.receiver] = task.models[0]
    found = {}
    for key, (start, work) in worked.items():
        if key not in public or work.sketched is not work.vector:  # an attacker's own code sketches what it likes
            found[key] = work.sketched
        elif (model := models.get(public[key])) is not None:
            found[key] = start - model + work.vector
    return found


def foreign_sketches(
    view: CorruptView, seeds: Mapping[int, bytes], sketched: Mapping[Instance, Vector], entropy: object
) -> Iterator[str]:
    """What is wrong, in words. view: of all frames as they were sent. seeds: that clients hold, empty of those that hold none.
    sketched: what clients sketch, by round, kind and client. Nothing is said of keys that are no simulation's.
    """
    how, held = view.public.protection, {seed for seed in seeds.values() if seed}
    if (protocol := PROTOCOLS.get(type(how))) is None or not isinstance(entropy, SimulatedEntropy):
        return
    seed = next((s for s in _drawn(view, entropy, protocol) if s in held), None)
    if held and (seed is None or len(held) > 1):
        yield f"{SEED} is not what a client drew"
    for frame in view.frames:
        if frame.receiver < 0 and any(one in frame.data for one in held):
            yield f"{SEED} stands in a {frame.kind} that client {frame.sender} sends"
            break
    if not isinstance(how, Masked):
        return
    tasks = sessions(view)
    made = {(t.cluster, t.round, kind_of(t.work)): digest for digest, t in tasks.items() if t.work in COMPUTED}
    sent = defaultdict[bytes, dict[int, object]](dict)
    for frame, envelope in messages(view, OffsetSketched, Upload):
        if (task := tasks.get(envelope.session)) is not None and task.work in WORKS:
            sent[envelope.session][frame.sender] = envelope.message
    for digest, said in sent.items():
        task = tasks[digest]
        source = source_of(task.models[0])
        known = {i: x for i in said if (x := sketched.get((source[1], source[2], i))) is not None}
        if seed is None or source not in made or not known:
            continue
        sketch = _sketch(how, view, seed, task, made[source])
        measured = sketch.sketch.apply(np.stack([*known.values()]).astype(np.float64))
        for (i, x), y in zip(known.items(), measured, strict=True):
            if not _is(said[i], y, sketch, CLOSE * float(np.linalg.norm(x))):
                yield f"client {i}'s sketch of round {task.round} is not what its key gives"


def _drawn(view: CorruptView, entropy: SimulatedEntropy, protocol: str) -> Iterator[bytes]:
    """Seeds for this protocol that follow from secrets that clients draw."""
    name, roster = "group seed", tuple(sorted(view.public.clients))
    digest = Session(name, view.public.run, 0, protocol, roster, len(roster) // 2 + 1).digest
    for i in roster:
        for joined in range(1, JOINED + 1):
            secret = entropy.lasting(f"{name} {digest.hex()} fresh secret {joined} of client {i}", 32)
            yield derive_key(secret, name, digest)


def _sketch(how: Masked, view: CorruptView, seed: bytes, task: Task, made: bytes) -> OffsetSketch:
    """That of what was made in this session, which this task asks for."""
    run, d = view.public.run, len(view.public.initial)
    k, radius = min(how.sketch, max(d // 2, 1)), how.clip * float(np.sqrt(d))
    public = hashlib.sha256(b"cloister/v1/public projection" + run).digest()
    if how.keys == "run":
        key = derive_key(seed, "sketch", run)
        return OffsetSketch(TwoStage.draw(public, key, d, k).held(), key, MARGIN * radius / LARGEST, np.zeros(k, np.uint64))
    chain = derive_key(seed, "sketch chain", run)
    for _ in range(task.round):
        chain = derive_key(chain, "next sketch chain", b"")
    return OffsetSketch.draw(public, derive_key(chain, "sketch", made), d, k, radius)


def _is(said: object, measured: np.ndarray[tuple[int], np.dtype[np.float64]], sketch: OffsetSketch, close: float) -> bool:
    """Whether a message has these measurements, behind the sketch's offset or in clear."""
    if isinstance(said, OffsetSketched):
        words = from_words(said.words)
        found = (words - sketch.offset).view(np.int64) * sketch.step if len(words) == len(measured) else None
    else:
        found = from_bytes(said.vector).astype(np.float64) if isinstance(said, Upload) else None
    return found is not None and len(found) == len(measured) and bool((np.abs(found - measured) <= close).all())
