"""Addresses as users write them: HOST:PORT, and why nobody can listen at one."""

import errno
import socket

MOST = 65535
IN_USE = "another process listens there; end it, or take another port"


def check_address(address: str, what: str) -> None:
    """Raises ValueError of one line for what is not HOST:PORT, nor a path of a Unix socket (unix:PATH): without a port, links
    would take 443, which nobody named.

    what: what the address is, for the error.
    """
    host, _, port = address.rpartition(":")
    if address.startswith("unix:"):
        return
    if not host or not port.isdecimal() or int(port) > MOST or (":" in host and not host.endswith("]")):
        raise ValueError(f"{what} is HOST:PORT, for example localhost:7000, not {address!r}")


def not_bound(address: str) -> str:
    """Why nobody can listen at HOST:PORT, in words, as a socket of its own tells; empty where it does not."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does: what is over and lingers is no listener
            tried.bind(place)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return IN_USE
        return error.strerror or str(error)
    except ValueError:
        return ""
    return ""
