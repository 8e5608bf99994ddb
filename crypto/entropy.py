"""Where secrets come from: the operating system in a real run, the scenario's seed in a simulation.

Two types, so that neither can be passed for the other: code that must not run on simulated secrets asks for `OsEntropy`.
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


@dataclass(frozen=True, slots=True)
class SimulatedEntropy:
    """Secrets that anyone can recompute from the seed: for simulations and test vectors, never for real parties."""

    seed: int = field(repr=False)

    def secret(self, label: str, size: int) -> bytes:
        """`size` bytes that depend on the seed and the label alone; labels must differ between secrets."""
        root = self.seed.to_bytes(32, "big", signed=True)
        return keystream(derive_key(root, "simulated entropy", label.encode()), size)


Entropy = OsEntropy | SimulatedEntropy
