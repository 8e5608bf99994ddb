"""Simulators: pure functions from what a protocol discloses, and public parameters, to views of its server.

A protocol discloses no more than that if no distinguisher tells these views from real ones. Here too: what is read off a
real run, all of it, and what a server can compute from it by itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cloister.crypto.additive import (
    AdditiveShare,
    GramTriple,
    deal_gram_triple,
    difference,
    gram_share,
    multiply,
    reveal,
    share,
)
from cloister.crypto.agreement import AgreementKey
from cloister.crypto.masks import mask
from cloister.crypto.shamir import MaskKeyShare, SelfSeedShare, combine
from cloister.protocol.core.session import SERVER
from cloister.protocol.masked.messages import MaskedInput, MaskKeys, MaskWith, Reveal, SealedShares
from cloister.protocol.masked.terms import Dealt, sign_of
from cloister.protocol.messages import decode

from .masked_sum_session import Play, losing

# --- masked sum: the server's view ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MaskedView:
    """What the server of one masked sum holds, and what follows from it. Ring vectors (length,) by client.

    frames: (kind, sender, receiver, data) of all that was sent, what got lost or came late included. inputs: as received.
    peeled: the inputs, without every mask whose key the reveals give away. alive: survivors; total: what was published, or None.
    """

    frames: tuple[tuple[str, int, int, bytes], ...]
    inputs: Mapping[int, np.ndarray]
    peeled: Mapping[int, np.ndarray]
    alive: tuple[int, ...]
    total: np.ndarray | None


def masked_view(play: Play) -> MaskedView:
    """The server's view of a session that was played with `record`."""
    plan, dtype = play.plan, play.terms.dtype
    said = [(f.sender, f.receiver, decode(f.data, f.sender, 1 << 24).message) for f in play.network.frames]
    of = {kind: {s: m for s, r, m in said if r == SERVER and type(m) is kind} for kind in (MaskKeys, SealedShares, MaskedInput)}
    masking = {r: m.neighbours for _, r, m in said if type(m) is MaskWith}
    reveals = [m for _, _, m in said if type(m) is Reveal]
    inputs = {i: np.frombuffer(m.vector, np.dtype(dtype).newbyteorder("<")).astype(dtype) for i, m in of[MaskedInput].items()}
    dealt = {i: Dealt.decode(plan, i, m.dealing) for i, m in of[SealedShares].items()}
    seeds: dict[int, list[SelfSeedShare]] = {}
    keys: dict[int, list[MaskKeyShare]] = {}
    for reveal_ in reveals:
        for i, encoded in zip(reveal_.alive, reveal_.seeds, strict=True):
            seeds.setdefault(i, []).append(SelfSeedShare.decode(encoded))
        for i, encoded in zip(reveal_.dropped, reveal_.keys, strict=True):
            keys.setdefault(i, []).append(MaskKeyShare.decode(encoded))
    t = play.terms.threshold
    known_seeds = {i: combine(dealt[i].seed, s).secret for i, s in seeds.items() if len(s) >= t}
    known_keys = {i: AgreementKey(combine(dealt[i].key, s).secret) for i, s in keys.items() if len(s) >= t}
    peeled = {}
    for i, y in inputs.items():
        rest = y.copy()
        if i in known_seeds:
            rest -= mask(plan.self_mask_key(i, known_seeds[i]), len(y), dtype)
        for j in masking[i]:
            holder, other = (j, i) if j in known_keys else (i, j)
            if holder in known_keys:
                (key,) = known_keys[holder].agree([(of[MaskKeys][other].mask_public, plan.pair(i, j))], "pair mask")
                rest = rest - mask(key, len(y), dtype) if sign_of(i, j) == 1 else rest + mask(key, len(y), dtype)
        peeled[i] = rest
    end = play.end
    summed = hasattr(end, "total")
    frames = tuple((f.kind, f.sender, f.receiver, f.data) for f in play.network.frames)
    return MaskedView(frames, inputs, peeled, end.clients if summed else (), end.total if summed else None)


def stand_ins(total: np.ndarray, alive: Sequence[int], roster: Sequence[int]) -> dict[int, np.ndarray]:
    """Inputs made of the disclosed sum alone: it is spread over the survivors, and everybody else has nothing."""
    n = len(alive)
    dtype = total.dtype.type
    even, rest = total // dtype(n), total % dtype(n)
    spread = {i: even + (dtype(at) < rest).astype(dtype) for at, i in enumerate(alive)}
    return {i: spread.get(i, np.zeros_like(total)) for i in roster}


def simulate_masked_view(
    n: int, total: np.ndarray, alive: Sequence[int], fates: Mapping[int, int], seed: int, **public: int
) -> MaskedView:
    """The server's view from the sum, who survived and when others fell silent: clients of our own, with stand-in inputs."""
    roster = tuple(range(1, 2 * n, 2))
    play = Play(n, losing(fates), vectors=stand_ins(total, alive, roster), seed=seed, record=True, **public)
    play.run()
    return masked_view(play)


def simulate_masked_inputs(
    total: np.ndarray, alive: Sequence[int], others: Sequence[int], rng: np.random.Generator
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """(inputs, peeled) without any key: all uniform, the survivors' peeled ones subject to their sum.

    others: clients outside of the sum whose input was on the wire. For a graph whose survivors are connected.
    """
    bits = 8 * total.dtype.itemsize

    def uniform() -> np.ndarray:
        return rng.integers(0, 2**bits, total.shape, total.dtype)

    peeled = {i: uniform() for i in (*alive, *others)}
    last = alive[-1]
    peeled[last] = total - sum((peeled[i] for i in alive[:-1]), np.zeros_like(total))
    return {i: uniform() for i in peeled}, peeled


def masked_words(inputs: Mapping[int, np.ndarray], peeled: Mapping[int, np.ndarray], alive: Sequence[int]) -> np.ndarray:
    """Per coordinate, what may show a relation: ring (length, words).

    The inputs; the peeled ones, one by one, in sums and differences of two, and without one of the survivors.
    """
    columns = [*(inputs[i] for i in sorted(inputs)), *(peeled[i] for i in sorted(peeled))]
    for i, j in combinations(sorted(peeled), 2):
        columns += [peeled[i] + peeled[j], peeled[i] - peeled[j]]
    whole = sum((peeled[i] for i in alive[1:]), peeled[alive[0]])
    columns += [whole, *(whole - peeled[i] for i in alive)]
    return np.stack(columns, axis=1)


def peeled_ring(keys: Sequence[bytes], inputs: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Inputs under pair masks alone, on a ring of clients: keys[i] is shared by client i and the next."""
    n = len(inputs)
    result = {}
    for i, x in enumerate(inputs):
        result[i] = x.copy()
        for key, j in ((keys[i], (i + 1) % n), (keys[i - 1], (i - 1) % n)):
            stream = mask(key, len(x), x.dtype.type)
            result[i] = result[i] + stream if sign_of(i, j) == 1 else result[i] - stream
    return result


# --- the two-stage sketch ---------------------------------------------------------------------------------------------------


def root_of(gram: np.ndarray) -> np.ndarray:
    """A root R of a positive semidefinite matrix, R R^T = gram: (n, rank), rounding taken for zero."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-10 * max(float(values[-1]), 1e-300)
    root: np.ndarray = vectors[:, keep] * np.sqrt(values[keep])
    return root


def simulate_sketches(gram: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """The sketches of n updates from the Gram matrix of their public projections: (n, k), columns iid N(0, gram / k)."""
    root = root_of(gram)
    return root @ rng.standard_normal((root.shape[1], k)) / math.sqrt(k)


def whitening_of(gram: np.ndarray, k: int) -> np.ndarray:
    """W such that W @ sketches is iid N(0, 1): (rank, n)."""
    return np.linalg.pinv(root_of(gram)) * math.sqrt(k)


# --- two servers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerShare:
    """What one of two servers holds after a Gram matrix was opened. uint64 all.

    uploads: its share of the updates (n, d). rows: the same under the public projection (n, width). mask, square: its half of
    the triple. opened: D. other: the other's share of the Gram matrix.
    """

    party: int
    uploads: np.ndarray
    rows: np.ndarray
    mask: np.ndarray
    square: np.ndarray
    opened: np.ndarray
    other: np.ndarray

    @property
    def own(self) -> np.ndarray:
        """Its own share of the Gram matrix, which it computes."""
        return gram_share(self.opened.view(np.int64), GramTriple(self.party, self.mask, self.square)).values


def server_shares(
    updates: np.ndarray, projection: np.ndarray, magnitude: int, share_key: bytes, dealer_key: bytes
) -> tuple[ServerShare, ServerShare]:
    """Both servers' views of the Gram matrix of projected updates. updates: int64 (n, d). projection: int64 (d, width)."""
    halves = deal_gram_triple(len(updates), projection.shape[1], dealer_key)
    shares = share(updates, magnitude, share_key)
    rows = [AdditiveShare(s.party, multiply(s.values, projection.view(np.uint64))) for s in shares]
    opened = reveal(*(difference(r, half) for r, half in zip(rows, halves, strict=True)))
    grams = [gram_share(opened, half) for half in halves]
    seen = opened.view(np.uint64)
    one, other = (
        ServerShare(p, shares[p].values, rows[p].values, halves[p].mask, halves[p].square, seen, grams[1 - p].values)
        for p in (0, 1)
    )
    return one, other


def simulate_server_share(party: int, gram: np.ndarray, projection: np.ndarray, rng: np.random.Generator) -> ServerShare:
    """A server's view from the Gram matrix, int64 (n, n), alone: all uniform, and the other's share what is left of it."""
    n, (d, width) = len(gram), projection.shape
    uploads, mask_, opened, square = (rng.integers(0, 2**64, (n, m), np.uint64) for m in (d, width, width, n))
    rows = multiply(uploads, projection.view(np.uint64))
    own = gram_share(opened.view(np.int64), GramTriple(party, mask_, square)).values
    return ServerShare(party, uploads, rows, mask_, square, opened, gram.view(np.uint64) - own)


def server_words(view: ServerShare) -> np.ndarray:
    """All words of the view and what a curious server would look at: uint64 (words,).

    The Gram matrix it ends with, the other's share of D, D with either of its own parts, antisymmetric parts of squares.
    """
    upper = np.triu_indices(len(view.square), 1)
    looked_at = [
        view.own + view.other,
        view.opened - (view.rows - view.mask),
        view.opened + view.mask,
        view.opened - view.rows,
        (view.square - view.square.T)[upper],
        (view.other - view.other.T)[upper],
        view.square - multiply(view.mask, np.ascontiguousarray(view.mask.T)),
    ]
    seen = [view.uploads, view.rows, view.mask, view.square, view.opened, view.other]
    return np.concatenate([words.ravel() for words in (*seen, *looked_at)])
