"""What both ends of a link agree on before they say anything else, the limits they keep, and how gRPC is told their keys."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cbor2

from ..core.session import VERSION
from ..pki.hello import CHALLENGE_BYTES
from ..pki.party import Credentials
from ..pki.tls import require_tls13
from .flow import MOST_PIECE

if TYPE_CHECKING:
    import grpc

SERVICE, METHOD = "cloister.Link", "Stream"
LINK_VERSION = 2
ID_HEADER = "cloister-client"
"""Of a stream without certificates: who the client says it is."""
BOOT_BYTES = 16
MOST_BYTES = 1 << 30
"""Of one message, however it is made up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a coordinator allows. most: bytes of a message. slots: long messages taken at once. greeting: seconds until a stream
    has said who it is. patience: seconds in which a client that owes an answer moves nothing, until it counts as absent.
    at_most: seconds until it does, whatever it moves. back: seconds that a client has to connect again before it is absent.
    ahead: bytes of words on their way, over which the next word waits. opening: streams of a client that have not said who they
    are. displacing: streams of a client that may take one another's place, and one more for every `calm` seconds.
    """

    most: int = MOST_BYTES
    slots: int = 8
    greeting: float = 10.0
    patience: float = 60.0
    at_most: float = 1800.0
    back: float = 5.0
    ahead: int = 256 << 20
    opening: int = 2
    displacing: int = 6
    calm: float = 20.0


class LinkRefused(ConnectionError):
    """The other side refuses this one, and says why: there is no use in trying again."""


def hello(boot: bytes, challenge: bytes = b"") -> bytes:
    """A client's first message. boot: drawn once for each life of its process. challenge: as in pki/hello.py; none without
    certificates.
    """
    return cbor2.dumps([LINK_VERSION, VERSION, boot, challenge])


def hello_of(data: bytes) -> tuple[bytes, bytes]:
    """Boot and challenge of a client's first message. Raises LinkRefused, with words for the client."""
    try:
        link, version, *of = cbor2.loads(data[:4096])
    except (TypeError, ValueError, cbor2.CBORDecodeError):
        raise LinkRefused("not a client's first message") from None
    if (link, version) != (LINK_VERSION, VERSION):
        theirs, ours = f"{link!r:.20}.{version!r:.20}", f"{LINK_VERSION}.{VERSION}"
        raise LinkRefused(f"this coordinator speaks version {ours}, the client {theirs}: all parties need the same release")
    if [type(item) for item in of] != [bytes, bytes] or len(of[0]) != BOOT_BYTES or len(of[1]) not in (0, CHALLENGE_BYTES):
        raise LinkRefused("not a client's first message")
    return of[0], of[1]


def reply(proof: bytes, greeting: bytes) -> bytes:
    """The coordinator's first message. proof: of who it is; none without certificates."""
    return cbor2.dumps([proof, greeting])


def reply_of(data: bytes) -> tuple[bytes, bytes]:
    """Proof and greeting of it. Raises LinkRefused."""
    try:
        proof, greeting = cbor2.loads(data)
    except (TypeError, ValueError, cbor2.CBORDecodeError):
        proof = greeting = None
    if type(proof) is not bytes or type(greeting) is not bytes:
        raise LinkRefused("the coordinator does not say who it is: all parties need the same release")
    return proof, greeting


def options() -> list[tuple[str, int]]:
    """Of a channel or server: bounded messages, and a link that is found out when it is dead."""
    return [
        ("grpc.max_receive_message_length", MOST_PIECE + 1024),
        ("grpc.max_send_message_length", MOST_PIECE + 1024),
        ("grpc.max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 2),
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


def server_credentials(tls: Credentials) -> "grpc.ServerCredentials":
    """Of a coordinator, which takes no client without a certificate."""
    import grpc

    return grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.authority, require_client_auth=True)


def channel_credentials(tls: Credentials) -> "grpc.ChannelCredentials":
    """Of a client."""
    import grpc

    return grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
