"""What the servers of encrypted sums do with what clients send: inputs are added as they come, and members' reports compared."""

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from math import isfinite

from ...crypto.ckks_ciphertexts import EncryptedVector, InvalidCiphertext, add
from ..core.errors import ProtocolError
from ..core.session import Session
from .keys import RelayedKey

Reports = Mapping[int, tuple[float, ...]]
"""What members said of what they opened, by client."""


def added(
    session: Session,
    key: RelayedKey,
    length: int,
    total: EncryptedVector | None,
    alive: Collection[int],
    client: int,
    data: bytes,
) -> EncryptedVector:
    """The total with the input of this client, `length` coordinates, in it. alive: whose are in the total.

    Raises ProtocolError blaming the client for an input from outside the roster, a second one, or one that is not ciphertexts.
    """
    if client not in session.roster or client in alive:
        raise ProtocolError("an input from outside the roster, or a second time", client)
    try:
        vector = key.public.read(data, length)
    except InvalidCiphertext as error:
        raise ProtocolError(f"an input that cannot be used: {error}", client) from None
    return vector if total is None else add([total, vector])


def report(asked: Collection[int], reports: Reports, client: int, told: bytes, count: int) -> tuple[float, ...]:
    """The `count` numbers that a member tells: binary64, big-endian. Raises ProtocolError blaming it."""
    if client not in asked or client in reports:
        raise ProtocolError("a report from a client that was not asked, or a second time", client)
    if len(told) != 8 * count:
        raise ProtocolError(f"{len(told)} bytes of a report where {8 * count} belong", client)
    numbers = struct.unpack(f">{count}d", told)
    if not all(map(isfinite, numbers)):
        raise ProtocolError("a report that is not finite", client)
    return numbers


def most_said(reports: Reports) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """What most members said (those that follow the protocol all say the same), and who said something else: nobody, where as
    many said another thing.
    """
    (found, times), *others = Counter(dict(sorted(reports.items())).values()).most_common(2)
    tied = any(often == times for _, often in others)
    return found, () if tied else tuple(sorted(i for i, told in reports.items() if told != found))
