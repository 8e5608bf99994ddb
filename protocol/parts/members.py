"""The clients that a simulation plays: an identity each, enrolled with all others beforehand, as a deployment would."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...crypto.entropy import Entropy
from ...crypto.identity import SigningKey


@dataclass(frozen=True, slots=True)
class Members:
    """identities: by client. enrolled: their public halves, which everybody knows."""

    identities: Mapping[int, SigningKey] = field(repr=False)
    enrolled: Mapping[int, bytes] = field(repr=False)

    @classmethod
    def enrol(cls, clients: tuple[int, ...], entropy: Entropy, label: str = "identity") -> "Members":
        """Fresh identities for all. label: for what they are drawn; no two enrolments of a run share one."""
        identities = {i: SigningKey.from_secret(entropy.lasting(f"{label} {i}", 32)) for i in clients}
        return cls(identities, {i: identity.public for i, identity in identities.items()})
