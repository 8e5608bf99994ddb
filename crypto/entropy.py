"""Where secrets come from: the operating system in a real run, the scenario's seed in a simulation.

Types of their own, so that neither can be passed for the other: code that must not run on simulated secrets asks for `OsEntropy`.
"""

import os
from dataclasses import dataclass, field

from .prg import derive_key, keystream


@dataclass(frozen=True, slots=True)
class OsEntropy:
    """Secrets from the operating system. What protects real parties."""

    def secret(self, label: str, size: int) -> bytes:
        """`size` fresh bytes; `label` only says what they are for."""
        return os.urandom(size)

    def lasting(self, label: str, size: int) -> bytes:
        """The same: whoever needs them again must have kept them (`KeptEntropy`)."""
        return os.urandom(size)


@dataclass(frozen=True, slots=True)
class KeptEntropy:
    """Secrets from the operating system, of which those that a run needs as long as it lasts are kept, by label, to resume it.

    kept: whoever has it has the identities and the shared seeds of all parties of a simulated run.
    """

    kept: dict[str, bytes] = field(default_factory=dict, repr=False)

    def secret(self, label: str, size: int) -> bytes:
        """`size` fresh bytes."""
        return os.urandom(size)

    def lasting(self, label: str, size: int) -> bytes:
        """`size` bytes, fresh when the label is first asked for. Raises ValueError if it was asked for in another size."""
        found = self.kept.setdefault(label, os.urandom(size))
        if len(found) != size:
            raise ValueError(f"{label!r} was drawn in another size")
        return found


@dataclass(frozen=True, slots=True)
class RootedEntropy:
    """Secrets that follow from one of the operating system's, which a party keeps to draw the same again after a crash.

    root: at least 16 bytes; whoever has it has them all. Labels must differ between secrets.
    """

    root: bytes = field(repr=False)

    def secret(self, label: str, size: int) -> bytes:
        """`size` bytes that depend on the root and the label alone."""
        return keystream(derive_key(self.root, "rooted entropy", label.encode()), size)

    def lasting(self, label: str, size: int) -> bytes:
        """The same."""
        return self.secret(label, size)


@dataclass(frozen=True, slots=True)
class SimulatedEntropy:
    """Secrets that anyone can recompute from the seed: for simulations and test vectors, never for real parties."""

    seed: int = field(repr=False)

    def secret(self, label: str, size: int) -> bytes:
        """`size` bytes that depend on the seed and the label alone; labels must differ between secrets."""
        root = self.seed.to_bytes(32, "big", signed=True)
        return keystream(derive_key(root, "simulated entropy", label.encode()), size)

    def lasting(self, label: str, size: int) -> bytes:
        """The same."""
        return self.secret(label, size)


Entropy = OsEntropy | KeptEntropy | RootedEntropy | SimulatedEntropy
