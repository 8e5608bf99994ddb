"""What theory promises of a rule: bounds on its robustness coefficient kappa, beside which empirical ones are read.

A rule R is (f, kappa)-robust if |R(x) - mean_S|^2 <= kappa / |S| sum_{i in S} |x_i - mean_S|^2 for every n - f of its n inputs S
(Allouah et al. 2023, "Fixing by mixing", definition 2). A rule that is so at f is at every smaller number, with the same kappa: a
larger set's mean is the mean of its subsets' means.
"""

from ..fl.robust.coordinates import Median, TrimmedMean
from ..fl.robust.krum import Krum
from ..fl.robust.mixing import NNM, Mixed
from ..fl.robust.rule import Rule
from ..fl.robust.weiszfeld import GeometricMedian


def kappa_bound(rule: object, n: int, f: int) -> float | None:
    """A kappa at which the rule is robust to f of n inputs, or None where none is known or f is more than it is built for.

    Table 1 and the lemma on NNM of Allouah et al. 2023. A rule with a number of its own is judged at that number. Krum's is that
    of the paper's proof for the n - f - 2 neighbours that are taken here: 6 (n - f) / (n - 2 f - 1), where the paper, with
    n - f - 1 of them, has 6 (n - f) / (n - 2 f) = 6 (1 + f / (n - 2 f)). The geometric median's is that of the exact
    one, as `GeometricMedian` finds it; RFA's few steps from the mean have none.
    """
    match rule:
        case Krum(f=own) if f <= own and 2 * own + 2 < n:
            return 6 * (n - own) / (n - 2 * own - 1)
        case Median() | GeometricMedian() if 2 * f < n:
            return 4 * (1 + least_kappa(n, f)) ** 2
        case TrimmedMean(b=own) if f <= own and 2 * own < n:
            return 6 * least_kappa(n, own) * (1 + least_kappa(n, own))
        case Mixed(steps=(NNM(f=own), *others), rule=last) if f <= own and 2 * own < n:
            return _mixed(Mixed(tuple(others), last) if others else last, n, own)
        case _:
            return None


def _mixed(behind: Rule, n: int, f: int) -> float | None:
    """Of nearest-neighbour mixing for f before a rule that stands f: 8 f / (n - f) (kappa + 1)."""
    kappa = kappa_bound(behind, n, f)
    return None if kappa is None else 8 * f / (n - f) * (kappa + 1)


def least_kappa(n: int, f: int) -> float:
    """f / (n - 2 f): no rule is robust to f of n inputs with less (proposition 6 there). Needs 2 f < n."""
    if not 0 <= 2 * f < n:
        raise ValueError(f"no rule is robust to {f} of {n} inputs")
    return f / (n - 2 * f)
