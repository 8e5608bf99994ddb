"""What both ends of a link agree on before they say anything else, the limits they keep, and their certificates."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cbor2

from ..core.session import VERSION
from ..pki.tls import require_tls13
from .flow import MOST_PIECE

if TYPE_CHECKING:
    import grpc

SERVICE, METHOD = "cloister.Link", "Stream"
LINK_VERSION = 1
ID_HEADER = "cloister-client"
"""Of a stream without certificates: who the client says it is."""
BOOT_BYTES = 16
MOST_BYTES = 1 << 30
"""Of one message, however it is made up."""
PartyOf = Callable[[bytes], int | None]
"""Whose certificate this is, PEM; None of nobody's that may come."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM bytes. key, certificate: one's own, with the certificates between it and the authority's. authority: that the other
    side's certificate comes from. Both sides show one, under TLS 1.3.
    """

    key: bytes = field(repr=False)
    certificate: bytes
    authority: bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """What a coordinator allows. most: bytes of a message. slots: long messages taken at once. greeting: seconds until a stream
    has said who it is. patience: seconds in which a client that owes an answer moves nothing, until it counts as absent.
    at_most: seconds until it does, whatever it moves. back: seconds that a client has to connect again before it is absent.
    ahead: bytes of words on their way, over which the next word waits.
    """

    most: int = MOST_BYTES
    slots: int = 8
    greeting: float = 10.0
    patience: float = 60.0
    at_most: float = 1800.0
    back: float = 5.0
    ahead: int = 256 << 20


class LinkRefused(ConnectionError):
    """The other side refuses this one, and says why: there is no use in trying again."""


def hello(boot: bytes) -> bytes:
    """A client's first message. boot: drawn once for each life of its process."""
    return cbor2.dumps([LINK_VERSION, VERSION, boot])


def boot_of(data: bytes) -> bytes:
    """Of a client's first message. Raises LinkRefused, with words for the client."""
    try:
        link, version, boot = cbor2.loads(data[:4096])
    except (TypeError, ValueError, cbor2.CBORDecodeError):
        raise LinkRefused("not a client's first message") from None
    if (link, version) != (LINK_VERSION, VERSION):
        theirs, ours = f"{link!r:.20}.{version!r:.20}", f"{LINK_VERSION}.{VERSION}"
        raise LinkRefused(f"this coordinator speaks version {ours}, the client {theirs}: all parties need the same release")
    if type(boot) is not bytes or len(boot) != BOOT_BYTES:
        raise LinkRefused("not a client's first message")
    return boot


def options() -> list[tuple[str, int]]:
    """Of a channel or server: bounded messages, and a link that is found out when it is dead."""
    return [
        ("grpc.max_receive_message_length", MOST_PIECE + 1024),
        ("grpc.max_send_message_length", MOST_PIECE + 1024),
        ("grpc.max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 2),
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.so_reuseport", 0),
    ]


def grpc_or_words() -> None:
    """Make ready for TLS 1.3 alone. Raises ImportError that says what to install, RuntimeError where gRPC is ready for less."""
    require_tls13()
    try:
        import grpc  # noqa: F401
    except ImportError:
        raise ImportError("real processes need grpcio: pip install 'cloister[deploy]'") from None


def server_credentials(tls: Tls) -> "grpc.ServerCredentials":
    """Of a coordinator, which takes no client without a certificate."""
    import grpc

    return grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.authority, require_client_auth=True)


def channel_credentials(tls: Tls) -> "grpc.ChannelCredentials":
    """Of a client."""
    import grpc

    return grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
