"""How a client's end reaches the coordinator, or another server, and what the end of a stream to it means."""

import time
from typing import TYPE_CHECKING, Any

from ..pki.admission import REVOKED
from ..pki.certificates import by_clock
from ..pki.names import name_of
from ..pki.standing import Standing
from .terms import IN_VAIN, NEVER_BEGAN, LinkRefused, LinkRevoked, channel_credentials, options

if TYPE_CHECKING:
    import grpc.aio

SHOWN = "compare `cloister keys show FOLDER`"
BROKE_OFF = "the connection broke off: that end was stopped or killed, or the network between is down"


def channel_to(address: str, server: int, standing: Standing | None) -> "grpc.aio.Channel":
    """To this server, with the keys that there are now. Raises ValueError where either is not in good standing."""
    import grpc

    known: list[tuple[str, Any]] = [*options(), ("grpc.initial_reconnect_backoff_ms", 200)]
    known.append(("grpc.use_local_subchannel_pool", 1))  # a connection of its own, beside other clients of this process too
    if standing is None:
        return grpc.aio.insecure_channel(address, options=known)
    standing.look_again()
    standing.check_in_good_standing(server)
    known.append(("grpc.ssl_target_name_override", name_of(server)))
    return grpc.aio.secure_channel(address, channel_credentials(standing.credentials()), options=known)


def why_ended(code: "grpc.StatusCode | None", details: str | None, server: int, secure: bool) -> str:
    """Why a stream ended, where it may be tried again. secure: whether it came with certificates.

    Raises LinkRefused, LinkRevoked where trying again would be in vain.
    """
    import grpc

    final = {
        grpc.StatusCode.PERMISSION_DENIED: "it is nobody that is known there",
        grpc.StatusCode.FAILED_PRECONDITION: "",
        grpc.StatusCode.ABORTED: "",
        grpc.StatusCode.INVALID_ARGUMENT: "",
    }
    if code is grpc.StatusCode.PERMISSION_DENIED and details == REVOKED:
        raise LinkRevoked(f"{REVOKED}: this party takes no further part, unless the authority gives it another")
    if code is grpc.StatusCode.FAILED_PRECONDITION and details == NEVER_BEGAN:
        raise LinkRefused(f"{NEVER_BEGAN}; the same command tries again, once the coordinator is there again")
    if code is grpc.StatusCode.FAILED_PRECONDITION and details == IN_VAIN:
        raise LinkRefused(f"{IN_VAIN}; when it begins anew, join it with another --folder")
    if code in final:
        raise LinkRefused(f"the {name_of(server)} refuses this party: {details or final[code]}")
    said = str(details)
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED):  # words of ours, at the other end
        return f"not let in for now: {said[:200]}"
    return _of_address(said) or _of_tls(said, secure) or f"{code.name if code is not None else 'lost'}: {said[:200]}"


def _of_address(details: str) -> str:
    """What is wrong where an address leads to nobody; empty where it does not. details: gRPC's."""
    if "Connection refused" in details:
        return "nobody listens there: it is not started yet, or the port is another one"
    if "Stream removed" in details or "Internal error from Core" in details:
        return BROKE_OFF
    if "address lookup failed" in details or "DNS resolution failed" in details:
        return "no machine has that name: is it spelled right, and known to this network?"
    return ""


def _of_tls(details: str, secure: bool) -> str:
    """What is wrong where TLS ends a connection, which says little of it itself; empty where it does not. details: gRPC's."""
    now = int(time.time())  # as TLS reads it
    _, found, reason = details.partition("CERTIFICATE_VERIFY_FAILED")
    if found:
        why = reason.strip(" :").partition(":")[0] or "it is in no order"
        if "issuer" in why or "self-signed" in why or "self signed" in why:
            return f"TLS: the certificate at that end is of another authority than this party trusts: {SHOWN} at both ends"
        return f"TLS: the certificate at that end is not taken: {why}, {by_clock(now)}"
    if "WRONG_VERSION_NUMBER" in details:
        return "TLS: what listens there does not speak it: it is another service, or began with --insecure-loopback"
    if "failed to connect" in details and ("Socket closed" in details or "reset by peer" in details):
        if not secure:
            return "what listens there hangs up: it asks for certificates (--keys, not --insecure-loopback) or is another service"
        why = "as it does where this party's certificate is expired or not valid yet by its clock, or of another authority"
        return f"TLS: that end hangs up in the handshake, {why}; here it is tried {by_clock(now)}"
    return ""
