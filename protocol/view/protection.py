"""Protections: protocols that answer for the clients. A scenario names one, and it opens a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypeVar

from ...crypto.agreement import ExchangedOnce, KeyExchange, exchange_keys
from ...crypto.entropy import Entropy
from ...crypto.identity import Verify, VerifyingOnce, verify
from ..core.errors import Refused
from ..core.link import Tap
from .answers import Vector, Work
from .asks import View
from .functionality import Functionality
from .work import Judgement, Scorer, Workers

if TYPE_CHECKING:
    from ..pairs.question import Comparing, Embedders
    from ..privacy.ledger import Release


V = TypeVar("V", covariant=True, bound=View, default=Any)
"""The type of view that a protection opens."""


class Protection(Protocol[V]):
    """A protocol that answers for the clients: a frozen dataclass that a scenario names."""

    @property
    def gives(self) -> frozenset[Functionality]:
        """The functionalities that its view answers."""
        ...

    def open(self, setup: Setup, /) -> V: ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What a view needs to begin. run: 16 bytes that name the run. initial: float32 (d,), known to all parties.

    entropy: where secrets come from. tap: what the network does to frames, or None for a perfect one. judge: how clients choose
    among models, on their own training or validation data; embedders: their computers for embeddings of their data. None where
    nothing asks for them. comparing: what clients will be asked for to be compared, which those elsewhere know from here;
    None where whoever plays the run tells them, at the first question. checks_once: a signature that many parties check,
    each for itself, is checked by one of them for all, or by none where it was made here, and what two clients agree on is found
    by one for both; not where each one's CPU seconds are measured. others: further models, of
    the same shape, that all parties know. hosts: where the clients are made, by their `Maker`, if not in this process
    (work/away.py). carried: what the last numbers of each model say that are no parameters, in words for the disclosure log;
    empty where there are none. besides: what a client released about its records with noise, by its training, which it counts
    together with what it releases here. starts_apart: whether clients may be asked to work from models beside the public ones of
    a task, or to be pulled to such (`Assignment.own`, `toward`); agreed on before the run; where it is not, clients refuse.
    works: kinds of work that clients' own computers may be asked for, likewise agreed on; None for all. Each kind has its own
    account of sums, so what is common to two of them, of one round, has two.
    scorer: how clients measure themselves, where they tell the server; None where they do not. recalls: how often in the run a
    client answers for what it keeps to be compared again, likewise agreed on: each answer tells k measurements more, of whatever
    it keeps. None for any number. span: most independent sums about a client's updates of one work session, likewise agreed on;
    None for as many as the floor allows.
    helpers: where a second server and a dealer are, by id, if not in this process. gathered: told how many clients
    must be there, and why an attempt at the run's seed came to nothing, where they are elsewhere: waits until it may be begun
    again; raises where they do not come, or where it is not to be.
    """

    run: bytes
    initial: Vector = field(repr=False)
    clients: tuple[int, ...]
    workers: Workers
    entropy: Entropy
    tap: Tap | None = None
    judge: Judgement | None = None
    embedders: Embedders | None = None
    checks_once: bool = True
    others: tuple[Vector, ...] = field(default=(), repr=False)
    hosts: Callable[[Any], Mapping[int, Any]] | None = None
    carried: str = ""
    comparing: Comparing | None = None
    besides: Callable[[int], Sequence[Release]] | None = None
    starts_apart: bool = False
    works: frozenset[Work] | None = None
    scorer: Scorer | None = None
    recalls: int | None = None
    span: int | None = None
    helpers: Callable[[], Mapping[int, Any]] | None = None
    gathered: Callable[[int, str], object] | None = None

    @property
    def verify(self) -> Verify:
        """How clients check signatures."""
        return VerifyingOnce() if self.checks_once else verify

    @property
    def exchange(self) -> KeyExchange:
        """How clients agree on keys."""
        return ExchangedOnce() if self.checks_once else exchange_keys


def check_composition(
    algorithm: str, needs: Iterable[Functionality], protection: Protection, known: Sequence[Protection], or_else: str = ""
) -> None:
    """Raise Refused if the protection cannot give what the algorithm needs, naming both and what would fit. or_else: what of the
    algorithm may be changed.
    """
    missing = sorted(set(needs) - protection.gives)
    if not missing:
        return
    fits = [as_written(other) for other in known if set(needs) <= other.gives]
    raise Refused(
        f"{algorithm} needs {', '.join(missing)}, which {as_written(protection)} does not give"
        + (f"; these would: {'; '.join(fits)}" if fits else "; no protection gives all that it needs")
        + (f"; or {or_else}" if or_else else "")
    )


def as_written(protection: Protection) -> str:
    """A protection as somebody would write it: with what is not as usual."""
    if not is_dataclass(protection) or isinstance(protection, type):
        return repr(protection)
    told = ((f, getattr(protection, f.name)) for f in fields(protection))
    usual = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(protection)}
    said = [f"{f.name}={getattr(value, '__name__', repr(value))}" for f, value in told if value != usual[f.name]]
    return f"{type(protection).__name__}({', '.join(said)})"
