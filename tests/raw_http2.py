"""A stream to a coordinator by hand: TLS from Python's ssl, HTTP/2 frames as a test wants them (RFC 9113), one header block."""

import socket
import ssl
import struct
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, GOAWAY = 0, 1, 3, 4, 7


def context(folder: Path, shows: bool = True) -> ssl.SSLContext:
    """With the certificate of this party's folder, or with none."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.load_verify_locations(folder / "authority.pem")
    if shows:
        found.load_cert_chain(folder / "link.pem", folder / "link.key")
    found.set_alpn_protocols(["h2"])
    return found


def connected(port: int, folder: Path, shows: bool = True) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    return context(folder, shows).wrap_socket(plain, server_hostname="localhost")


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _literal(name: str, value: str) -> bytes:
    """A header field that is not indexed (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def opening(path: str = "/cloister.Link/Stream", window: int | None = None) -> bytes:
    """What comes before the first message of a stream. window: bytes that may be sent to it; None for HTTP/2's own number."""
    fields = {":method": "POST", ":scheme": "https", ":path": path, ":authority": "coordinator"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    block = b"".join(_literal(name, value) for name, value in fields.items())
    return PREFACE + frame(SETTINGS, 0, 0, b"" if window is None else struct.pack(">HI", 4, window)) + frame(HEADERS, 4, 1, block)


def message(content: bytes, declared: int | None = None) -> bytes:
    """As gRPC puts it on a stream: its length, and what there is of it."""
    return b"\x00" + struct.pack(">I", len(content) if declared is None else declared) + content


def said_until_closed(link: ssl.SSLSocket) -> bytes:
    """All that comes until the other side ends the connection."""
    found = b""
    try:
        while piece := link.recv(1 << 16):
            found += piece
    except (ssl.SSLError, ConnectionError):
        pass
    return found


def said_until(link: ssl.SSLSocket, kind: int) -> bytes:
    """All that comes up to a frame of this kind, or the end."""
    found, at = b"", 0
    while True:
        while len(found) >= at + 9:
            size = int.from_bytes(found[at : at + 3], "big")
            if found[at + 3] in (kind, GOAWAY):
                return found
            at += 9 + size
        try:
            piece = link.recv(1 << 16)
        except (ssl.SSLError, ConnectionError):
            return found
        if not piece:
            return found
        found += piece
