"""A session: one protocol run among named parties. Its digest enters every message, key and signature."""

import hashlib
from dataclasses import dataclass, field
from operator import lt

import cbor2

VERSION = 2
RUN_BYTES = 16
MAX_ROSTER = 100_000
MAX_ID = 2**31 - 1
SERVER = -1
"""The server's party id; clients have ids 0 .. MAX_ID."""
SECOND_SERVER = -2
"""The party id of a second server, which must not collude with the first."""
DEALER = -3
"""The party id of a dealer of correlated randomness, which must collude with neither server."""


@dataclass(frozen=True, slots=True)
class Session:
    """What all parties of a session agree on before they say anything.

    protocol: name of the protocol. run: 16 bytes that name the run. round: counted from 0. cluster: name of the cluster.
    roster: client ids, ascending. threshold: fewest clients whose answers may be used.
    """

    protocol: str
    run: bytes
    round: int
    cluster: str
    roster: tuple[int, ...]
    threshold: int
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.run) != RUN_BYTES:
            raise ValueError(f"a run is named by {RUN_BYTES} bytes, not {len(self.run)}")
        if not (0 < len(self.protocol) <= 64 and 0 < len(self.cluster) <= 256):
            raise ValueError("protocol and cluster need a name of at most 64 and 256 characters")
        if not 0 <= self.round < 2**31:
            raise ValueError(f"round {self.round} is out of range")
        if not 0 < len(self.roster) <= MAX_ROSTER:
            raise ValueError(f"a roster of {len(self.roster)} clients is out of range")
        if not 0 <= min(self.roster) <= max(self.roster) <= MAX_ID or not all(map(lt, self.roster, self.roster[1:])):
            raise ValueError("a roster lists client ids in ascending order, each once")
        if not 1 <= self.threshold <= len(self.roster):
            raise ValueError(f"threshold {self.threshold} does not fit a roster of {len(self.roster)}")

    @property
    def fields(self) -> tuple[str, bytes, int, str, tuple[int, ...], int]:
        """In the order in which messages and the digest have them."""
        return self.protocol, self.run, self.round, self.cluster, self.roster, self.threshold

    @property
    def digest(self) -> bytes:
        """SHA-256 of the deterministic CBOR of the version and the fields."""
        if not self._digest:  # once: a roster of a thousand clients is asked for it by each of them
            made = hashlib.sha256(cbor2.dumps([VERSION, *self.fields], canonical=True)).digest()
            object.__setattr__(self, "_digest", made)
        return self._digest
