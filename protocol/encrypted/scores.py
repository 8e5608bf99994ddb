"""The server of encrypted scores: it collects encrypted sketches, multiplies them, and is told rounded norms and cosines.

Spec: specs/encrypted.md. Phases of collecting: CollectingCiphertexts -> CiphertextsCollected. Of comparing: OpeningProducts ->
ProductsOpened or Shortfall. It never holds a secret key, nor a decrypted sketch or product.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks_ciphertexts import EncryptedVector, InvalidCiphertext, inner_product
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .client_phases import SCORES, SKETCH
from .keys import TRIES, RelayedKey, Shortfall
from .messages import MOST_PRODUCTS, EncryptedInput, RoundedScores, ScoreRequest, SketchRequest, products_of
from .scaling import norms_of, test_vector

__all__ = [
    "SCORES",
    "SKETCH",
    "CiphertextsCollected",
    "CollectingCiphertexts",
    "OpeningProducts",
    "ProductsOpened",
    "Shortfall",
    "ask",
    "comparison",
    "invite",
    "server_step",
]


@dataclass(frozen=True, slots=True)
class CollectingCiphertexts:
    """The server while encrypted sketches arrive. length: of a sketch. work: digest of the session that they are of."""

    session: Session
    key: RelayedKey
    length: int
    work: bytes = bytes(32)
    received: Mapping[int, EncryptedVector] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CiphertextsCollected:
    """The server with the encrypted sketches of the survivors, ascending."""

    session: Session
    received: Mapping[int, EncryptedVector] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpeningProducts:
    """The server while one client after the other, up to number `asked` of `openers`, may open its products."""

    session: Session
    request: ScoreRequest = field(repr=False)
    openers: tuple[int, ...]
    asked: int = 0


@dataclass(frozen=True, slots=True)
class ProductsOpened:
    """The end. norms: float64 (rows,), or empty where there are columns. cosines: float64 (rows, rows) or (rows, columns). asked:
    who was asked, and may answer late. silent: who was asked before the one that answered.
    """

    session: Session
    norms: NDArray[np.float64]
    cosines: NDArray[np.float64]
    asked: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Inner products of the rows, where there are no columns: float64 (rows, rows)."""
        found: NDArray[np.float64] = self.cosines * np.outer(self.norms, self.norms)
        return found


def invite(state: CollectingCiphertexts) -> tuple[Effect, ...]:
    """The server's first move: every client of the roster is asked for its sketch."""
    s, key = state.session, state.key
    request = SketchRequest(*s.fields, state.length, key.holder, key.encrypting, key.tag, key.sealed, state.work)
    return tuple(Send(Envelope(s.digest, SERVER, client, request)) for client in s.roster)


def comparison(
    session: Session,
    key: RelayedKey,
    rows: Sequence[EncryptedVector],
    columns: Sequence[EncryptedVector],
    digits: int,
    seed: bytes,
    proven: bool = True,
    openers: Sequence[int] = (),
) -> OpeningProducts:
    """All products of the rows with each other, or with the columns where there are any, and behind them that of a test vector
    with itself; about 10 ms each.

    seed: what the test vector is encrypted with, 32 bytes that no client knows before; the same in every life of a coordinator,
    which says the same words again. proven: whether another than its maker has opened anything with this key. Its maker is asked
    last, and before that not at all where there are others: nothing is to come under a key that it alone can use. openers: the
    roster in the order in which it is asked; as it is, where empty.

    Raises ValueError for more than one request may hold, and Uncomputable.
    """
    if (count := products_of(len(rows), len(columns))) > MOST_PRODUCTS:
        raise ValueError(f"{count} inner products are more than the {MOST_PRODUCTS} of one request; compare fewer updates")
    if columns:
        pairs = [(x, x) for x in (*rows, *columns)] + [(x, z) for x in rows for z in columns]
    else:
        pairs = [(x, z) for i, x in enumerate(rows) for z in rows[i:]]
    test = key.public.encrypt_with(test_vector(rows[0].length), seed)
    products = tuple(inner_product(x, z).to_bytes() for x, z in (*pairs, (test, test)))
    sizes = (len(rows), len(columns), digits)
    others = tuple(i for i in openers or session.roster if i != key.holder)
    maker = (key.holder,) if key.holder in session.roster and (proven or not others) else ()
    request = ScoreRequest(*session.fields, *sizes, key.holder, key.hash, key.sealed, products)
    return OpeningProducts(session, request, (*others, *maker)[:TRIES])


def ask(state: OpeningProducts) -> tuple[Effect, ...]:
    """The next client is sent the products."""
    return (Send(Envelope(state.session.digest, SERVER, state.openers[state.asked], state.request)),)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for what is misplaced, repeated or malformed."""
    match state, event:
        case CollectingCiphertexts(), Received(Envelope(message=EncryptedInput(ciphertexts=data), sender=client)):
            return _collect(state, client, data), ()
        case CollectingCiphertexts(), Deadline():
            return CiphertextsCollected(state.session, dict(sorted(state.received.items()))), ()
        case OpeningProducts(), Received(Envelope(message=RoundedScores() as scores, sender=client)):
            return _compared(state, client, scores), ()
        case ProductsOpened(), Received(Envelope(message=RoundedScores(), sender=client)) if client in state.asked:
            return state, ()
        case OpeningProducts(), Deadline():
            following = state.asked + 1
            if following == len(state.openers):
                return Shortfall(state.session, "scores", 0, 1, asked=state.openers), ()
            state = replace(state, asked=following)
            return state, (Awaiting("scores", (state.openers[following],)), *ask(state))
        case ((CiphertextsCollected() | ProductsOpened() | Shortfall()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _collect(state: CollectingCiphertexts, client: int, data: bytes) -> CollectingCiphertexts:
    if client not in state.session.roster or client in state.received:
        raise ProtocolError("a sketch from outside the roster, or a second time", client)
    try:
        sketch = state.key.public.read(data, state.length)
    except InvalidCiphertext as error:
        raise ProtocolError(f"a sketch that cannot be used: {error}", client) from None
    return replace(state, received={**state.received, client: sketch})


def _compared(state: OpeningProducts, client: int, scores: RoundedScores) -> ProductsOpened:
    request = state.request
    rows, columns, digits = request.rows, request.columns, request.digits
    asked = state.openers[: state.asked + 1]
    if client not in asked:
        raise ProtocolError("scores from a client that was not asked", client)
    pairs = rows * columns if columns else rows * (rows - 1) // 2
    if len(scores.norms) != (0 if columns else 4 * rows) or len(scores.cosines) != 4 * pairs:
        raise ProtocolError("scores of other sketches than were asked about", client)
    cosines = np.frombuffer(scores.cosines, "<i4").astype(np.float64) / 10**digits
    if pairs and np.abs(cosines).max() > 1:
        raise ProtocolError("a cosine that cannot be", client)
    norms, silent = norms_of(np.frombuffer(scores.norms, "<i4"), digits), asked[: asked.index(client)]
    if columns:
        return ProductsOpened(state.session, norms, cosines.reshape(rows, columns), asked, silent)
    square = np.zeros((rows, rows))
    square[np.triu_indices(rows, 1)] = cosines
    return ProductsOpened(state.session, norms, square + square.T + np.diag((norms > 0).astype(np.float64)), asked, silent)
