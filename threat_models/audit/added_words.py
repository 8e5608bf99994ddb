"""What clients added to what they put in, for whoever scores and knows that: uploaded words less the update as clients encode it.

Of a masked sum that is the client's self mask and its masks with others, of a share between two servers the other share. Under
correct code these are uniform words, independent between uploads: in each is a stream that nothing else has. So it is whatever
was taken away; a truth that is not exact hides nothing but how a protection fails. Of sketches behind an offset it is one offset
for all of a set, far larger than a sketch, so the top bits of one client's words are looked at as they came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...protocol.core.session import Session
from ...protocol.masked.client_inputs import Inputs
from ...protocol.masked.joined import COUNTED, OPENED, kind_of, update_of
from ...protocol.masked.known import numbers_of
from ...protocol.masked.messages import MaskedInput, Proposal
from ...protocol.masked.protection import Masked
from ...protocol.masked.terms import SumTerms
from ...protocol.parts.offset_sketches import from_words
from ...protocol.two_servers.messages import ExplicitShare
from ...protocol.two_servers.protection import TwoServer
from ...protocol.two_servers.slot_messages import SlotShare
from ...protocol.two_servers.terms import TooLarge
from ...protocol.view.account import kind_of as work_of
from ...protocol.view.answers import OFFSET_AS
from ...protocol.view.work import LocalWork
from ...protocol.wire.messages import OffsetSketched, Task
from .reading import messages, sessions
from .truth import Truth
from .unopened import Cover, Unopened
from .view import CorruptView
from .words import WINDOW, Table, Words

MOST_WORDS = 2**22
"""Of uploads of one length: as many coordinates of each as fit are looked at, in windows; words that are 0 are counted at all."""
TOP = 8
"""Bits of a sketch's words above all that the sketch itself reaches, for updates that are not far longer than others."""
PURPOSES = (b"", b"weights")
"""What sums of updates, and of weights that count samples, call the work that they are of."""

SKETCHED = frozenset(OFFSET_AS.values())
"""Sketches of work behind an offset of its session's own; others go behind one that was used before, or recall older work."""


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """words: by what they were added to, for tests of them. uploads: that were looked at, of `coordinates` numbers in all.

    sampled: whether not all coordinates were. beyond: of uploads with more bytes than their terms give, in words. missed: uploads
    that were not looked at, by why. wrong: what masks and keys are not, in words.
    """

    words: tuple[Words, ...] = field(repr=False)
    uploads: int
    coordinates: int
    sampled: bool
    beyond: tuple[str, ...] = ()
    missed: tuple[tuple[str, int], ...] = ()
    wrong: tuple[str, ...] = ()


_Like = tuple[str, int, int]
"""Uploads that are tested together: what kind of words, bits of each, and how many."""


@dataclass(slots=True)
class _Read:
    """What comes out of frames beside words, as in `Added`."""

    beyond: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)


def added(view: CorruptView, truth: Truth) -> Added:
    """In all uploads of a run under masks or shares that the observer has. What has noise inside, and what goes into slots or is
    opened by a receiver, cannot be encoded again, and is counted. Of a masked input also what is left when all masks that the
    observer knows are taken off it: where clients are in it, that alone, and of the others' uploads. Masks and shares are held
    against the keys that there should be, too.
    """
    how, read = view.public.protection, _Read()
    if isinstance(how, Masked):
        found = _masked(view, truth, how, read)
    elif isinstance(how, TwoServer):
        found = _shares(view, truth, how, read)
    else:
        return Added((), 0, 0, False)
    corrupt, seen, uploads = view.observer.clients, set[tuple[bytes, int]](), _count(view)
    left = Unopened(view, truth.mask_keys, uploads)
    groups, kept = defaultdict[_Like, list[Cover]](list), dict[_Like, NDArray[np.int64]]()
    for one in _covers(found, view, truth, left):
        seen.add((one.session, one.client))
        key = one.sort, 8 * one.words.itemsize, len(one.words)
        at = kept.setdefault(key, _windows(len(one.words), uploads))
        groups[key].append(replace(one, words=one.words[at], zeros=len(one.words) - int(np.count_nonzero(one.words))))
    tables = [table for key, ones in groups.items() for table in _tables(ones, key, kept[key])]
    sketched = None if corrupt else _offsets(view)
    tables += [] if sketched is None else [sketched]
    sampled = any(len(kept[key]) < key[2] for key in groups)
    numbers = sum(len(one.words) for ones in groups.values() for one in ones)
    read.missed.update(left.missed)
    wrong = *left.alone, *truth.foreign, *left.wrong
    return Added(tuple(tables), len(seen), numbers, sampled, tuple(read.beyond), tuple(read.missed.items()), wrong)


def _covers(found: Iterator[Cover], view: CorruptView, truth: Truth, left: Unopened) -> Iterator[Cover]:
    """All that is tested: uploads as they came, and what is left where what the observer knows is taken off."""
    shares, corrupt = isinstance(view.public.protection, TwoServer), view.observer.clients
    for one in found:
        left.compare(one, shares)
        if one.client not in corrupt and (shares or not corrupt):
            yield one
        if not shares and (rest := left.of(one)) is not None:
            yield rest


def _count(view: CorruptView) -> int:
    kinds = {MaskedInput.__name__, ExplicitShare.__name__}
    return max(1, sum(frame.kind in kinds for frame in view.frames))


def _windows(length: int, uploads: int) -> NDArray[np.int64]:
    """Coordinates that are looked at: all, or windows of them evenly spaced, the first and the last among them."""
    windows = -(-length // WINDOW)
    most = max(2, MOST_WORDS // (uploads * WINDOW))
    if windows <= most:
        return np.arange(length)
    starts = np.unique(np.linspace(0, windows - 1, most).round().astype(np.int64)) * WINDOW
    at = (starts[:, None] + np.arange(WINDOW)).reshape(-1)
    return np.asarray(at[at < length], np.int64)


def _tables(ones: list[Cover], like: _Like, at: NDArray[np.int64]) -> Iterator[Words]:
    """Of uploads of one length, and of their sums over each session: a mask of its own is left of every client in it."""
    ones, (_, bits, length) = sorted(ones, key=lambda one: (one.round, one.client)), like
    names = tuple(f"client {one.client}'s {one.sort} of round {one.round}" for one in ones)
    table, zeros = np.stack([one.words for one in ones]), np.array([one.zeros for one in ones], np.int64)
    yield Words(table, bits, at, names, tuple(one.client for one in ones), zeros, length)
    totals, rounds = dict[bytes, Table](), dict[bytes, int]()
    for one in ones:
        totals[one.session] = totals.get(one.session, np.zeros_like(one.words)) + one.words
        rounds[one.session] = one.round
    names = tuple(f"the sum over all in a session, {ones[0].sort} of round {rounds[session]}" for session in totals)
    if len(totals) < len(ones):
        yield Words(np.stack(list(totals.values())), bits, at, names, (-1,) * len(totals))


def _distinct(view: CorruptView, *kinds: type) -> Iterator[tuple[int, bytes, bytes, object]]:
    """(client, session, words, message) of every upload; what a network delivers twice is one."""
    seen = set[tuple[int, bytes, int]]()
    for frame, envelope in messages(view, *kinds):
        key = frame.sender, envelope.session, hash(frame.data)
        if key not in seen:
            seen.add(key)
            yield frame.sender, envelope.session, bytes(envelope.message.vector), envelope.message


# --- masked sums ----------------------------------------------------------------------------------------------------------------


def _masked(view: CorruptView, truth: Truth, how: Masked, read: _Read) -> Iterator[Cover]:
    numbers = numbers_of(how, len(view.public.initial))
    works = {update_of(digest, p): task for digest, task in sessions(view).items() for p in PURPOSES}
    proposed: dict[bytes, tuple[Session, SumTerms]] = {}
    for _, envelope in messages(view, Proposal):
        if envelope.session not in proposed:
            proposed[envelope.session] = envelope.message.session, SumTerms.proposed(envelope.message)
    for client, digest, data, _ in _distinct(view, MaskedInput):
        if digest not in proposed:
            read.missed["inputs to a session that was not proposed"] += 1
            continue
        session, terms = proposed[digest]
        where = f"client {client}, round {session.round}"
        if len(data) > terms.input_bytes:
            read.beyond.append(f"{where}: a masked input of {len(data)} bytes, where its terms give {terms.input_bytes}")
        task, kind = works.get(terms.update), kind_of(session.protocol)
        if numbers.noise is not None:
            read.missed["inputs with noise inside"] += 1
        elif kind in ("slot", "slots"):
            read.missed["inputs to sums into slots"] += 1
        elif kind == OPENED:
            read.missed["inputs to sums that a receiver opens"] += 1
        elif len(data) < terms.input_bytes or task is None or (vector := _update(truth, task, client)) is None:
            read.missed["inputs whose update is not on record"] += 1
        else:
            work = LocalWork(vector, truth.samples(task.round, work_of(task.work), client))
            ring = Inputs(client, numbers).encoded(session, terms, work)
            if isinstance(ring, str) or len(ring) != terms.length:
                read.missed["inputs that cannot be encoded again"] += 1
                continue
            words: Table = np.frombuffer(data[: terms.input_bytes], terms.wire).astype(terms.dtype)
            sort = "mask on counts" if kind in COUNTED and terms.length < len(vector) else "mask"
            yield Cover(sort, client, session.round, digest, words - ring, terms.largest)


def _update(truth: Truth, task: Task, client: int) -> NDArray[np.float32] | None:
    return truth.updates.get((task.round, work_of(task.work), client))


# --- two servers ----------------------------------------------------------------------------------------------------------------


def _shares(view: CorruptView, truth: Truth, how: TwoServer, read: _Read) -> Iterator[Cover]:
    terms, tasks = how.terms(len(view.public.initial)), sessions(view)
    for client, digest, data, message in _distinct(view, ExplicitShare, SlotShare):
        if isinstance(message, SlotShare):
            read.missed["shares of slots"] += 1
            continue
        task = tasks.get(digest)
        round = -1 if task is None else task.round
        if len(data) > 8 * terms.length:
            read.beyond.append(f"client {client}, round {round}: a share of {len(data)} bytes, where {8 * terms.length} belong")
        vector = None if task is None else _update(truth, task, client)
        if isinstance(message, ExplicitShare) and task is not None and vector is not None:
            n = truth.samples(round, work_of(task.work), client)
            if message.samples != n:
                read.beyond.append(f"client {client}, round {round}: it says {message.samples} samples, where it has {n}")
        if len(data) < 8 * terms.length or vector is None:
            read.missed["shares whose update is not on record"] += 1
            continue
        try:
            encoded = terms.encode(vector).view(np.uint64)
        except (TooLarge, ValueError):
            read.missed["shares that cannot be encoded again"] += 1
            continue
        yield Cover("share", client, round, digest, from_words(data[: 8 * terms.length]) - encoded, 2 * terms.radius)


# --- sketches -------------------------------------------------------------------------------------------------------------------


def _offsets(view: CorruptView) -> Words | None:
    """The top bits of one client's words of each set behind an offset, once for each session that was sketched; None of none."""
    asked = {digest: task for digest, task in sessions(view).items() if task.work in SKETCHED}
    first: dict[str, tuple[int, int, Table]] = {}
    for frame, envelope in messages(view, OffsetSketched):
        if (task := asked.get(envelope.session)) is not None and task.models[0] not in first:
            top = from_words(envelope.message.words) >> np.uint64(64 - TOP)
            first[task.models[0]] = frame.sender, task.round, top.astype(np.uint8)
    if not first:
        return None
    length = min(len(words) for _, _, words in first.values())
    table = np.stack([words[:length] for _, _, words in first.values()])
    names = tuple(f"the offset of sketches of round {t}, by client {i}'s words" for i, t, _ in first.values())
    return Words(table, TOP, np.arange(length), names, (-1,) * len(first))
