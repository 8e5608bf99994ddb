"""One client's own computer in comparisons: what it embeds, measures and charges. Implements `client.Computer`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...crypto.entropy import Entropy
from ..privacy.ledger import Ledger, Release
from ..view.answers import Vector
from .compute import PreparedAnswer, Respondent, answer_of, report_of, showing_of
from .noise import Noise, opened
from .question import Comparing, Embedders, Released, Reported, Rows
from .terms import PairTerms


class OwnComputer:
    """embedders: of its own data. comparing: what it will be asked, None before it knows. ledger: of what it released with noise,
    None before the first of it. besides: what it released about the same records otherwise.
    """

    def __init__(
        self, me: int, embedders: Embedders, entropy: Entropy, besides: Callable[[int], Sequence[Release]] | None = None
    ) -> None:
        self.embedders = embedders
        self.comparing: Comparing | None = None
        self.ledger: Ledger | None = None
        self._me = me
        self._besides = besides
        self._entropy = entropy
        self._embedded: dict[str, Rows] = {}

    def forget(self) -> None:
        """What it embedded by a model of its own, or by the public one."""
        self._embedded.clear()

    def release(self, terms: PairTerms, secret: bytes, own: Vector | None, others: Vector | None, /) -> Released:
        """See `Computer`."""
        return self._charged(answer_of(self._asked(terms, own, others), secret))

    def show(self, terms: PairTerms, own: Vector | None, others: Vector | None, /) -> Rows:
        """See `Computer`."""
        return self._charged(showing_of(self._asked(terms, own, others))).own

    def report(self, terms: PairTerms, own: Vector | None, others: Vector | None, theirs: Rows, /) -> Reported:
        """See `Computer`."""
        return report_of(self._asked(terms, own, others), theirs)

    def _asked(self, terms: PairTerms, own: Vector | None, others: Vector | None) -> Respondent:
        if self.comparing is None:
            raise ValueError("nothing was asked")
        key = self._entropy.secret(f"pair noise {self._me} {terms.binding.hex()}", 32)

        def embedded(part: str) -> Rows:
            if part not in self._embedded:
                self._embedded[part] = self.embedders.embed(self._me, part, own)
            return self._embedded[part]

        reference = self.comparing.reference
        return Respondent(terms, self._me, self.embedders, embedded, own, others, reference, self._noise, key)

    @property
    def _noise(self) -> Noise | None:
        return None if self.comparing is None else getattr(self.comparing.choice, "noise", None)

    def _charged(self, answer: PreparedAnswer) -> Released:
        """Charge the ledger, and only then release."""
        if self._noise is not None:
            ledger = self.ledger or opened(self._noise, self._me)
            if self._besides is not None and ledger.unit == "record":
                answer.charge(replace(ledger, releases=(*ledger.releases, *self._besides(self._me))))
            self.ledger = answer.charge(ledger)
        return answer.release()
