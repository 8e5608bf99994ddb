"""The distributed discrete Gaussian: a masked sum in which each client adds its share of the noise (Kairouz, Liu, Steinke 2021).

Spec: specs/distributed_gaussian.md. A client clips in l2, rotates by a public random Hadamard rotation, rounds conditionally to a
grid, adds discrete Gaussian noise of its own, and sends the result as its input to a masked sum. The server opens the sum alone,
whose noise is what the honest survivors added: epsilon is computed with their number, and with no other.

Weights are uniform. A weight by samples would multiply a client's sensitivity by a number that it chooses itself.
"""

import hashlib
import math
import struct
from dataclasses import dataclass, field
from typing import cast

import cbor2
import numpy as np
from numpy.typing import NDArray

from ...crypto.entropy import Entropy
from ...crypto.fixed_point import Conditional, FixedPoint, Floats
from ...crypto.orthonormal import HadamardRotation
from ...crypto.prg import derive_key
from ...crypto.samplers import discrete_gaussian, discrete_gaussian_reach
from ..core.errors import Refused
from ..core.session import Session
from ..privacy.adjacency import Adjacency
from ..privacy.gaussian import SummedDiscreteGaussians, rounded_l2
from ..privacy.ledger import Ledger, Release
from .server import Unmasked
from .terms import Ring

PAPER_BETA = math.exp(-0.5)
"""beta of conditional rounding in the paper."""
_SLACK = 1 + 2.0**-20
"""On the sensitivity: norms are compared as sums of float64 squares, which are off by less than this for 2^32 coordinates."""


@dataclass(frozen=True, slots=True)
class DistributedGaussian:
    """The public parameters of one sum with noise. Raises ValueError, which says what to change, if the sum could wrap around.

    d: coordinates of a vector. l2: largest norm; longer vectors are scaled down to it. granularity: width of the grid.
    variance: of each client's discrete Gaussian, in squared grid steps. clients: most of a cohort. corrupt: clients among them
    that may leave their noise out. beta: as in `Conditional`. overflow: the chance, at most, that the rotation leaves any
    coordinate of any client above `flat`, where it is cut off before rounding. Nothing else about the sum is left to chance:
    it wraps around for no vectors and no noise that the sampler can return.
    """

    d: int
    l2: float
    granularity: float
    variance: int
    clients: int
    corrupt: int
    ring_bits: int
    beta: float
    overflow: float

    def __post_init__(self) -> None:
        if self.d < 1 or not 0 <= self.corrupt < self.clients:
            raise ValueError("a sum needs a coordinate and at least one honest client")
        if not (0 < self.l2 < math.inf and 0 < self.granularity < math.inf and 0 < self.overflow < 1 and 0 < self.beta < 1):
            raise ValueError("l2 and granularity are above 0 and finite, overflow and beta within 0 and 1")
        if self.variance < 1 or self.variance != int(self.variance):
            raise ValueError(f"the variance is a whole number of squared steps from 1 on, not {self.variance}; refine the grid")
        if self.ring_bits not in (32, 64):
            raise ValueError(f"ring_bits is 32 or 64, not {self.ring_bits}")
        bits = self.bits
        if bits > 31 or self.clients * (2**bits - 1) >= 2**self.ring_bits:
            most = min(((2**self.ring_bits - 1) // self.clients + 1).bit_length() - 1, 31)
            room = 2 ** max(most - 1, 0) - 1
            raise ValueError(
                f"{self.clients} clients with levels of up to {self.reach} could wrap around modulo 2^{self.ring_bits}; "
                f"make granularity {self.reach / max(room, 1):.3g} times as wide, the noise with it"
                + (", or take ring_bits=64" if self.ring_bits == 32 and bits <= 31 else "")
            )

    @property
    def padded(self) -> int:
        """Coordinates after rotation: d, padded to a power of two."""
        return 1 << max(self.d - 1, 0).bit_length()

    @property
    def flat(self) -> int:
        """Largest level of a rotated vector before noise.

        The second pass of the rotation is random signs on a vector of norm at most c = l2 / granularity, then a Walsh-Hadamard
        transform: by Hoeffding each coordinate exceeds t with probability at most 2 exp(-t^2 padded / 2 c^2).
        """
        c = self.l2 / self.granularity
        likely = c * math.sqrt(2 * math.log(2 * self.clients * self.padded / self.overflow) / self.padded)
        return math.ceil(min(c, likely))

    @property
    def reach(self) -> int:
        """Bound on |level| of any client after rounding (one more than `flat`) and noise."""
        return self.flat + 1 + discrete_gaussian_reach(self.variance)

    @property
    def bits(self) -> int:
        """Of an element of an input: the fewest whose levels reach as far as any client's."""
        return self.reach.bit_length() + 1

    @property
    def grid(self) -> FixedPoint:
        """The encoding, whose ring_bits, bits, clip and max_weight are the terms of the masked sum."""
        half = (1 << self.bits - 1) - 1
        return FixedPoint(self.ring_bits, self.bits, self.granularity * half, self.clients, 1)

    @property
    def length(self) -> int:
        """Ring elements of an input: the padded coordinates and a 1 that counts the client."""
        return self.padded + 1

    @property
    def sensitivity(self) -> float:
        """L2 norm, in grid steps, that no rounded vector exceeds."""
        return rounded_l2(self.l2 / self.grid.step, self.padded, self.beta) * _SLACK

    @property
    def protocol(self) -> str:
        """The name of the sessions with these parameters. All keys and signatures depend on it, so nobody is told others."""
        floats = (struct.pack(">d", x) for x in (self.l2, self.granularity, self.beta, self.overflow))
        fields = [self.d, self.variance, self.clients, self.corrupt, self.ring_bits, *floats]
        return f"masked sum/gaussian {hashlib.sha256(cbor2.dumps(fields, canonical=True)).hexdigest()[:32]}"

    def deviation(self, survivors: int) -> float:
        """Bound on the standard deviation of a coordinate of the mean of `survivors` clients: their noise and rounding.

        Leaves out the bias of conditional rounding: a draw is repeated with probability beta at most.
        """
        return self.grid.step * math.sqrt((self.variance + 0.25) / survivors)

    def release(self, survivors: int, adjacency: Adjacency) -> Release:
        """What opening a sum of this many survivors discloses about one of them, as the ledger takes it.

        Formal guarantee: differential privacy for one client's whole vector ("user level"), by the noise of the survivors that
        are not corrupt, against the server, the corrupt clients and everybody who sees the sum. The sampler's distance from the
        exact distribution adds at most survivors * padded * 2^-190 to delta. adjacency: "zero out" (its vector is replaced by
        zeros) or "replace" (by any other). Raises Refused for "add or remove", and if nobody honest is left to add noise.
        """
        if adjacency == "add or remove":
            raise Refused('who takes part in a masked sum is public: account under "zero out" or "replace"')
        honest = survivors - self.corrupt
        if honest < 1:
            raise Refused(f"of {survivors} survivors {self.corrupt} may have added no noise, so the sum may have none")
        l2 = self.sensitivity * (2 if adjacency == "replace" else 1)
        event = SummedDiscreteGaussians(self.variance, honest, self.padded, l2)
        deviation = self.grid.step * math.sqrt(self.variance * honest)
        return Release(
            event,
            l2 * self.grid.step,
            adjacency,
            "client",
            f"{honest} discrete Gaussians, together of standard deviation {deviation:.4g}",
            f"the sum of {survivors} clients",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A client's place in a session that its ledger can pay for, even if no more than the session's threshold survive.

    before: the ledger without the session. ledger: with it, at its worst. Keep this one until `settled` is known.
    """

    parameters: DistributedGaussian
    session: Session
    before: Ledger = field(repr=False)
    ledger: Ledger

    @property
    def client(self) -> int:
        return self.ledger.client

    def encode(self, vector: Floats, entropy: Entropy) -> Ring:
        """The client's input, uint32 or uint64, shape (length,). vector: float32 or float64, shape (d,).

        Takes 32 secret bytes from `entropy`. Raises ValueError for NaN or infinity or another length.
        """
        p, session = self.parameters, self.session
        if vector.shape != (p.d,):
            raise ValueError(f"expected a vector of {p.d} coordinates, got shape {vector.shape}")
        if not np.isfinite(vector).all():
            raise ValueError("the vector has NaN or infinite coordinates; reject the update")
        label = f"distributed gaussian {self.client} {session.digest.hex()}"
        secret = entropy.secret(label, 32)
        rotated = rotation(p, session).apply(_clipped(vector.astype(np.float64), p.l2).astype(np.float32))
        flat = p.flat * p.grid.step
        bounded = np.clip(_clipped(rotated.astype(np.float64), p.l2), -flat, flat)
        rounding = Conditional(derive_key(secret, "conditional rounding", session.digest), p.l2, p.beta)
        ring = cast(Ring, p.grid.encode(bounded, 1, rounding).ring)
        noise = discrete_gaussian(derive_key(secret, "distributed noise", session.digest), p.padded, p.variance)
        ring[:-1] += noise.astype(ring.dtype)  # modulo the ring
        return ring

    def settled(self, survivors: int) -> Ledger:
        """The ledger after the session, for the number of survivors that this client signed."""
        if survivors < self.session.threshold:
            raise ValueError(f"no sum of {survivors} is opened where {self.session.threshold} are needed")
        return self.before + self.parameters.release(survivors, self.before.adjacency)


def reserve(parameters: DistributedGaussian, session: Session, ledger: Ledger) -> Place:
    """The place of the ledger's client in the session. To be asked before the client advertises its first key.

    Raises BudgetExceeded if a sum of the threshold's survivors could take it past its budget, and Refused for a session with
    other parameters, for another roster or unit, or for a threshold that leaves nobody honest.
    """
    if session.protocol != parameters.protocol:
        raise Refused(f"the session is {session.protocol!r}, not one with these parameters, {parameters.protocol!r}")
    if len(session.roster) > parameters.clients or ledger.client not in session.roster:
        raise Refused(f"the roster has more than {parameters.clients} clients, or not client {ledger.client}")
    if ledger.unit != "client":
        raise Refused(f"a whole vector is protected, so the ledger's unit is 'client', not {ledger.unit!r}")
    worst = parameters.release(session.threshold, ledger.adjacency)
    before = ledger.without("who took part and who survived")
    return Place(parameters, session, before, before + worst)


def rotation(parameters: DistributedGaussian, session: Session) -> HadamardRotation:
    """The session's public rotation, from its digest."""
    return HadamardRotation.draw(derive_key(session.digest, "distributed gaussian rotation", b""), parameters.d)


def decode(parameters: DistributedGaussian, summed: Unmasked) -> NDArray[np.float32]:
    """The noisy mean of the survivors' clipped vectors, float32, shape (d,).

    Raises ValueError for a total that no such sum can be, which a client with a made-up input causes.
    """
    if summed.session.protocol != parameters.protocol or summed.total.shape != (parameters.length,):
        raise ValueError("the sum is of a session with other parameters")
    mean = parameters.grid.decode(summed.total)
    if mean.weight != len(summed.clients):
        raise ValueError(f"{len(summed.clients)} clients count as {mean.weight}: one of them did not follow the encoding")
    return rotation(parameters, summed.session).invert(mean.mean)


def _clipped(vector: NDArray[np.float64], l2: float) -> NDArray[np.float64]:
    """The vector, scaled down to norm l2 if it is longer."""
    largest = float(np.abs(vector).max())
    norm = largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0  # squares of large values overflow
    return vector * (l2 / norm) if norm > l2 else vector
