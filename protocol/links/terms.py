"""What both ends of a link agree on before they say anything else, the limits they keep, and how gRPC is told their keys."""

import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

import cbor2

from ..core.errors import Revoked
from ..core.session import VERSION
from ..pki.hello import CHALLENGE_BYTES
from ..pki.names import name_of
from ..pki.party import Credentials
from ..pki.tls import require_tls13
from ..wire.codec import plain_in
from .flow import MOST_PIECE

if TYPE_CHECKING:
    import grpc

    from ..pki.standing import Standing

SERVICE, METHOD = "cloister.Link", "Stream"
LINK_VERSION = 8
ID_HEADER = "cloister-client"
"""Of a stream without certificates: who the client says it is."""
TERMS_HEADER = "cloister-terms"
"""Of a stream: by what the client works, for the coordinator's log."""
MOST_TERMS_BYTES = 6144
NEVER_BEGAN = "the run did not begin: too few clients came"
IN_VAIN = "the run ended before its first round, and the coordinator's own line says why"
"""Unlike above, something was said by then: a client's folder is of that run."""
BOOT_BYTES = 16
MOST_RUN_BYTES = 64
MOST_BYTES = 1 << 30
"""Of one message, however it is made up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a coordinator allows. most: bytes of a message. slots: long messages taken at once. greeting: seconds until a stream
    has said who it is. patience: seconds in which a client that owes an answer moves nothing, until it counts as absent.
    at_most: seconds until it does, whatever it moves. back: seconds that a client has to connect again before it is absent.
    ahead: bytes of words on their way, over which the next word waits. held: bytes of words without an answer, but for what words
    have in common, over which it waits likewise, while answers come. opening: streams of a client that have not said who they
    are. displacing: streams of a client that may take one another's place, and one more for every `calm` seconds. unended:
    streams of a client that are not over, with those that its end keeps open though this one has left them.
    """

    most: int = MOST_BYTES
    slots: int = 4
    greeting: float = 10.0
    patience: float = 60.0
    at_most: float = 1800.0
    back: float = 5.0
    ahead: int = 256 << 20
    held: int = 8 << 20
    opening: int = 2
    displacing: int = 6
    calm: float = 20.0
    unended: int = 8


class LinkRefused(ConnectionError):
    """The other side refuses this one, and says why: there is no use in trying again."""


class JournalLost(LinkRefused):
    """The other side answered what its journal does not know of."""


class LinkRevoked(LinkRefused, Revoked):
    """This side's certificate was taken back by the authority: it takes no further part."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What a client knows of the run that it is in. run: its name; empty of one that it does not know yet. life: of how many of
    the coordinator's lives it knows. number: of the last word that it took, in this life of its own or an earlier one.
    """

    run: bytes = b""
    life: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class CoordinatorRun:
    """What a coordinator knows of its run. name: see `ClientRun.run`. life: of its process, counted from 1. numbers: of the
    last word to each client. answered: of the last that each answered. settled: up to which number answers last; None: they
    need not.

    The mappings change while the run goes on.
    """

    name: bytes = b""
    life: int = 1
    numbers: Mapping[int, int] = field(default_factory=dict)
    answered: Mapping[int, int] = field(default_factory=dict)
    settled: Mapping[int, int] | None = None

    def check(self, client: int, seen: ClientRun) -> None:
        """Raises LinkRefused, with words for both, for a client of another run, and where one of the two has an older journal."""
        if seen.run and seen.run != self.name:
            raise LinkRefused("this coordinator plays another run than this folder is of: a new run needs a new --folder")
        if seen.life > self.life or (seen.run and seen.number > self.numbers.get(client, 0)):
            raise LinkRefused(
                f"the coordinator's journal is an older copy: {name_of(client)} took word {seen.number} of the coordinator's life"
                f" {seen.life}, and the journal is of life {self.life} and knows of word {self.numbers.get(client, 0)}"
            )
        if (answered := self.answered.get(client, 0)) > seen.number:
            raise JournalLost(
                f"the journal of {name_of(client)} is an older copy, or was lost: it answered word {answered}, and knows of word"
                f" {seen.number}; without the newest it takes no further part: is --folder the one of its first start?"
            )


def hello(boot: bytes, challenge: bytes = b"", seen: ClientRun | None = None) -> bytes:
    """A client's first message. boot: drawn once for each life of its process. challenge: as in pki/hello.py; none without
    certificates. seen: what it knows of the run.
    """
    return cbor2.dumps([LINK_VERSION, VERSION, boot, challenge, *astuple(seen or ClientRun())])


def hello_of(data: bytes) -> tuple[bytes, bytes, ClientRun]:
    """Boot and challenge of a client's first message, and what it knows. Raises LinkRefused, with words for the client."""
    try:
        link, version, *of = plain_in(data[:4096])
    except (TypeError, ValueError):
        raise LinkRefused("not a client's first message") from None
    if not (type(link) is type(version) is int and 0 <= link < 1 << 63 and 0 <= version < 1 << 63):
        raise LinkRefused("not a client's first message")
    if (link, version) != (LINK_VERSION, VERSION):
        theirs, ours = f"{link}.{version}", f"{LINK_VERSION}.{VERSION}"
        raise LinkRefused(f"this coordinator speaks version {ours}, the client {theirs}: all parties need the same release")
    right = [type(item) for item in of] == [bytes, bytes, bytes, int, int]
    if not right or len(of[0]) != BOOT_BYTES or len(of[1]) not in (0, CHALLENGE_BYTES):
        raise LinkRefused("not a client's first message")
    boot, challenge, run, life, number = of
    if len(run) > MOST_RUN_BYTES or not 0 <= life < 1 << 63 or not 0 <= number < 1 << 63:
        raise LinkRefused("not a client's first message")
    return boot, challenge, ClientRun(run, life, number)


def reply(proof: bytes, shown: bytes, run: CoordinatorRun, greeting: bytes) -> bytes:
    """The coordinator's first message. proof: of who it is. shown: its certificate, DER. Both are empty without certificates."""
    return cbor2.dumps([proof, shown, run.name, run.life, greeting])


def reply_of(data: bytes) -> tuple[bytes, bytes, bytes, int, bytes]:
    """In it: proof, certificate, name and life of the run, greeting. Raises LinkRefused."""
    wrong = LinkRefused("the coordinator does not say who it is: all parties need the same release")
    try:
        proof, shown, run, life, greeting = plain_in(data)
    except (TypeError, ValueError):
        raise wrong from None
    if [type(item) for item in (proof, shown, run, life, greeting)] != [bytes, bytes, bytes, int, bytes]:
        raise wrong
    if len(run) > MOST_RUN_BYTES or not 0 < life < 1 << 63:
        raise wrong
    return proof, shown, run, life, greeting


def options(every: int = 20_000) -> list[tuple[str, int]]:
    """Of a channel or server: bounded messages, and a link that is found out when it is dead, also where nothing is said for
    hours. every: milliseconds between pings on a link; a server takes them twice as often.
    """
    return [
        ("grpc.max_receive_message_length", MOST_PIECE + 1024),
        ("grpc.max_send_message_length", MOST_PIECE + 1024),
        ("grpc.max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 2),
        ("grpc.keepalive_time_ms", every),
        ("grpc.keepalive_timeout_ms", max(every // 2, 5_000)),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.http2.min_ping_interval_without_data_ms", every // 2),  # else five minutes, and who pings more often is sent away
        ("grpc.http2.max_pings_without_data", 0),  # no limit: who is silent for long pings on
        ("grpc.so_reuseport", 0),
    ]


def grpc_or_words() -> None:
    """Make ready for TLS 1.3 alone, and for no lines of gRPC's own in a log, unless GRPC_VERBOSITY asks for them.

    Raises ImportError that says what to install, RuntimeError where gRPC is ready for less.
    """
    require_tls13()
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        import grpc  # noqa: F401
    except ImportError:
        raise ImportError("real processes need grpcio: pip install 'cloister[deploy]'") from None


def server_credentials(standing: "Standing") -> "grpc.ServerCredentials":
    """Of a coordinator, which takes no client without a certificate. A connection is shown the one that its folder has then."""
    import grpc

    def shown(tls: Credentials) -> "grpc.ServerCertificateConfiguration":
        return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.authority)

    def now() -> "grpc.ServerCertificateConfiguration | None":
        """Called by gRPC at each connection; None where it is that of before."""
        tls = standing.other_credentials()
        return None if tls is None else shown(tls)

    return grpc.dynamic_ssl_server_credentials(shown(standing.credentials()), now, require_client_authentication=True)


def channel_credentials(tls: Credentials) -> "grpc.ChannelCredentials":
    """Of a client."""
    import grpc

    return grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
