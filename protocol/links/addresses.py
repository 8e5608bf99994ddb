"""Addresses as users write them: HOST:PORT, and why nobody can listen at one."""

import errno
import socket

MOST = 65535
IN_USE = "another process listens there; end it, or take another port"
NO_NAME = "no machine has that name; give an address of this one, or 0.0.0.0 for all of them"
NOT_HERE = "that is no address of this machine; give one, or 0.0.0.0 for all of them"
SURE = (IN_USE, NO_NAME, NOT_HERE)
"""Of these whoever tries again in another way knows no more."""


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
    except socket.gaierror:
        return NO_NAME
    except OSError as error:
        return {errno.EADDRINUSE: IN_USE, errno.EADDRNOTAVAIL: NOT_HERE}.get(error.errno or 0) or error.strerror or str(error)
    except ValueError:
        return ""
    return ""
