"""FedSoft: every client keeps a model of its own, pulled to the centres of the clusters that its data are a mixture of (Ruan,
Joe-Wong, AAAI 2022).

Every `interval` rounds a client counts of how many of its samples each centre c_s has the least loss: u_ks = that over n_k, and
sigma in the place of 0. In every round it minimises f_k(w) + (lambda / 2) sum_s u_ks |w - c_s|^2 from its own model w_k, which it
keeps, and sends that for every centre: c_s = sum_k v_ks w_k with v_ks = u_ks n_k / sum_k' u_k's n_k'.

The proximal term is, but for a constant, (lambda sum_s u_ks / 2) |w - c|^2 with c the mean of the centres by u_ks: one point that
the client is pulled to, and how strongly.

Where paper and authors' code differ or are silent:
- The paper draws clients for each centre with probabilities v_.s, which shows u to whoever draws. Here all clients that take part
  count for all centres, with v (the paper's form without selection), and the server learns sums of shares alone.
- u_ks n_k is a whole number of samples, and as such the share in slot s. The sigma in the place of a 0 is in the proximal term
  and not in the shares, where the default is less than half of one up to 5,000 samples. Of more than `most` samples shares are
  scaled to add up to `most`.
- The same w_k is in several slots: the server learns sums of the same models with weights that it does not know. Protections that
  show it who chose what (`Plain`, `Permuted`) answer those slots that together show nobody.
- w_k begins at the centres' mean by u_k. Centres begin at draws of the scenario's model. Ties go to the first centre.
- A client that never took part predicts with the centre of its largest u.
"""

from dataclasses import dataclass, replace

import numpy as np

from ...protocol.masked.slots import integer_shares
from ..clients.slots import InSlots, Piece, SlotInputs, SlotWork, Values
from ..clients.training import Training
from .algorithm import check_counts
from .several_models import WeighedModels

IMPORTANCE, MODEL, SINCE = "u", "w", "since"


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSoft(WeighedModels):
    """models: S centres. pull: lambda. interval: rounds between two counts of u, the paper's tau. smoother: sigma."""

    models: int = 2
    pull: float = 0.1
    interval: int = 2
    smoother: float = 1e-4

    def __post_init__(self) -> None:
        WeighedModels.__post_init__(self)
        check_counts(interval=self.interval)
        if not (0 <= self.pull < np.inf and 0 < self.smoother < 1):
            raise ValueError(f"pull is 0 or more, and smoother within 0 and 1, not {self.pull} and {self.smoother}")

    @property
    def in_slots(self) -> InSlots:
        """What a client does."""
        return InSlots(self._work, lambda seen: shares_of(seen) / len(seen.targets), own=MODEL)

    def local(self, training: Training, /) -> Training:
        return replace(training, prox=self.pull)

    def _work(self, seen: SlotInputs) -> SlotWork:
        counted = IMPORTANCE in seen.kept and seen.round // self.interval == int(seen.kept[SINCE][0]) // self.interval
        counts = seen.kept[IMPORTANCE] if counted else shares_of(seen)
        since = seen.kept[SINCE] if counted else np.array([seen.round])
        n = int(counts.sum())
        u = np.where(counts == 0, self.smoother, counts / n)
        centre = (u / u.sum() @ seen.models.astype(np.float64)).astype(np.float32)
        shares = integer_shares(counts.tolist(), min(n, self.most))
        slots = tuple(s for s, share in enumerate(shares) if share)
        w = Piece(seen.kept.get(MODEL, centre), slots, toward=centre, pull=float(u.sum()), kept_as=MODEL)
        return SlotWork(shares, (w,), {IMPORTANCE: counts, SINCE: since})


def shares_of(seen: SlotInputs) -> Values:
    """Of how many examples each centre has the least loss, the first of several: float64 (S,), whole numbers."""
    return np.bincount(np.argmin(seen.losses, axis=0), minlength=len(seen.models)).astype(np.float64)
