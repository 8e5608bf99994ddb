"""How a client's end reaches the coordinator, or another server, and what the end of a stream to it means."""

from typing import TYPE_CHECKING, Any

from ..pki.admission import REVOKED
from ..pki.names import name_of
from ..pki.standing import Standing
from .terms import NEVER_BEGAN, LinkRefused, LinkRevoked, channel_credentials, options

if TYPE_CHECKING:
    import grpc.aio


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


def why_ended(code: "grpc.StatusCode | None", details: str | None, server: int) -> str:
    """Why a stream ended, where it may be tried again. Raises LinkRefused, LinkRevoked where that would be in vain."""
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
        raise LinkRefused(NEVER_BEGAN)
    if code in final:
        raise LinkRefused(f"the {name_of(server)} refuses this party: {details or final[code]}")
    return f"{code.name if code is not None else 'lost'}: {str(details)[:200]}"
