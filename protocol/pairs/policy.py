"""What a client insists on, whatever the server proposes."""

from dataclasses import dataclass

from .choices import Choice, Distances, MeanSketch, PerPair, PerRound, ServerSamples
from .noise import Noise
from .terms import PROTOCOL, EmbeddingSizes, PairTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPolicy:
    """d, inputs, rows: of the client's own embeddings, examples and sample, which terms must name: a projection of another size
    would be drawn in vain, and noise for a larger sample would be too little.

    released: what it is willing to release, as terms name it. once: whether one release for all, in place of one a pair.
    projected: embeddings never leave it as they are. exchanges: whether it shows its embedding model to other clients, and
    embeds by theirs. max_ratio: most of p / d. max_weights: largest model that it takes. noise: the noise that it adds to every
    release; terms must say the same, so that everybody knows what the numbers are. answers: how often it answers for one pair.
    """

    d: int
    inputs: int
    rows: int
    released: frozenset[str] = frozenset({"clouds"})
    once: bool = False
    projected: bool = True
    exchanges: bool = True
    max_ratio: float = 0.9
    max_weights: int = 1 << 28
    noise: Noise | None = None
    answers: int = 1

    def refusal(self, terms: PairTerms) -> str | None:
        """Why these terms are refused, or None."""
        raw = terms.released == "samples"
        embeds = terms.released in ("clouds", "mean", "bases")
        n = self.noise
        noise = ("none", 0.0, 0.0, 0.0) if n is None else (n.unit, n.clip, n.multiplier, n.reference_multiplier)
        problems = {
            f"{terms.released} are asked for, which the policy keeps": terms.released not in self.released,
            "a release to all is asked for, or one to a pair, against the policy": self.once
            != (terms.session.protocol != PROTOCOL),
            "samples of another size than the client's own": (terms.d, terms.rows) != (self.inputs if raw else self.d, self.rows),
            "embeddings are asked for as they are": embeds and self.projected and terms.projection == "none",
            f"more than {self.max_ratio} of the dimensions are asked for": embeds
            and terms.projection != "none"
            and terms.p > max(1, self.max_ratio * terms.d),
            "embedding models are to be exchanged": terms.weights > 0 and not self.exchanges,
            f"a model of more than {self.max_weights} floats": terms.weights > self.max_weights,
            "noise that is not the client's own": (terms.unit, terms.clip, terms.noise, terms.reference_noise) != noise,
        }
        return next((reason for reason, found in problems.items() if found), None)


def policy_of(choice: Choice, sizes: EmbeddingSizes) -> PairPolicy:
    """A client that knows the choice, and does nothing else."""
    words = {ServerSamples: "samples", MeanSketch: "mean", Distances: "distances", PerRound: "bases"}
    return PairPolicy(
        d=sizes.d,
        inputs=sizes.inputs,
        rows=sizes.rows,
        released=frozenset({words.get(type(choice), "clouds")}),
        once=not isinstance(choice, PerPair | Distances),
        projected=getattr(choice, "projection", "") != "none",
        exchanges=getattr(choice, "embedding", "public") == "exchanged",
        max_ratio=max(0.9, getattr(choice, "ratio", 0.0)),
        noise=getattr(choice, "noise", None),
        answers=getattr(choice, "answers", 1),
    )
