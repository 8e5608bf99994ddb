"""How clients hand models to each other through a server that cannot read them. Spec: specs/owned_models.md."""

from dataclasses import dataclass, field

from ...crypto.entropy import Entropy
from ...crypto.envelope import InvalidSeal, open_sealed, seal
from ...crypto.prg import derive_key
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..view.protection import Setup
from ..wire.recipes import SALT_BYTES, Lent


@dataclass(frozen=True, slots=True)
class Lending:
    """How clients hand models to each other through a server that cannot read them. secret: that all clients share."""

    secret: bytes = field(repr=False)
    entropy: Entropy = field(repr=False)

    def lent(self, me: int, name: str, content: bytes, digest: bytes) -> Lent:
        """A model of mine, sealed. content: its bytes. digest: their SHA-256; no salt is drawn twice for another content."""
        salt = self.entropy.secret(f"lent model {me} {name} {digest.hex()}", SALT_BYTES)
        return Lent(name, me, salt, seal(self._key(name, me, salt), content, name.encode()))

    def opened(self, lent: Lent) -> bytes:
        """What another client lent. Raises ProtocolError."""
        try:
            return open_sealed(self._key(lent.name, lent.lender, lent.salt), lent.content, lent.name.encode())
        except InvalidSeal:
            raise ProtocolError("a model that does not open", SERVER) from None

    def _key(self, name: str, lender: int, salt: bytes) -> bytes:
        return derive_key(self.secret, "lent model", salt + lender.to_bytes(4, "big") + name.encode())


def lending_of(seed: bytes, setup: Setup) -> Lending:
    """Of clients that agreed on this seed."""
    return Lending(derive_key(seed, "lending", setup.run), setup.entropy)
