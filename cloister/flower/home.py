"""A client's own folder on its node, and the socket in it by which Flower's short processes reach the one that stays.

Only processes of the folder's user reach the socket: the folder has mode 0700, and the other end's user is looked at.
"""

import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..protocol.core.errors import Refused

SOCKET, LOCK, LOG = "socket", "lock", "resident.log"
MOST_BYTES = 1 << 30
"""Of one message."""
MOST_PATH = 100
"""Characters of a socket's path; systems allow little more."""
_SIZE = struct.Struct(">Q")
_PIECE = 1 << 20
_STARTS = 60.0
"""Seconds until a process that was started listens."""


def private_folder(path: Path) -> Path:
    """It, made if it is not there. Raises Refused where others can look into it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Refused(f"{path} is not this user's alone; chmod 700 it")
    if len(str(path / SOCKET)) > MOST_PATH:
        raise Refused(f"the path of {path} is too long for a socket: at most {MOST_PATH - len(SOCKET) - 1} characters")
    return path


def listen(folder: Path) -> socket.socket:
    """A socket in this folder. Whoever calls holds its lock."""
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()
    return listening


def own_user(link: socket.socket) -> bool:
    """Whether the process at the other end is of this user."""
    _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.getuid())


def send(link: socket.socket, data: bytes) -> None:
    """Raises OSError."""
    link.sendall(_SIZE.pack(len(data)))
    link.sendall(data)


def receive(link: socket.socket) -> bytes:
    """Raises ConnectionError where the other end is gone before all of it came, or says more than it may."""
    (size,) = _SIZE.unpack(_exactly(link, _SIZE.size))
    if size > MOST_BYTES:
        raise ConnectionError("a message that is too long")
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytes:
    found = bytearray()  # grows with what comes, and not with what was announced
    while len(found) < size:
        piece = link.recv(min(_PIECE, size - len(found)))
        if not piece:
            raise ConnectionError("the other process is gone")
        found += piece
    return bytes(found)


def asked(folder: Path, data: bytes) -> bytes:
    """What the process that listens in this folder answers. Raises ConnectionError where it ends before it has."""
    with _connected(folder) as link:
        if not own_user(link):
            raise ConnectionError("another user listens in this client's folder")
        send(link, data)
        return receive(link)


def _connected(folder: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(str(folder / SOCKET))
    except OSError as error:
        link.close()
        raise ConnectionError("no process of this client listens") from error
    return link


def start(folder: Path, arguments: Sequence[str]) -> None:
    """See that a process listens in this folder, and start it if none does. Raises ConnectionError."""
    with suppress(ConnectionError):
        _connected(folder).close()
        return
    log = os.open(folder / LOG, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        command = [sys.executable, "-m", "cloister.flower.resident", str(folder), *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    finally:
        os.close(log)
    until = time.monotonic() + _STARTS
    while time.monotonic() < until:
        with suppress(ConnectionError):
            _connected(folder).close()
            return
        if process.poll():
            break
        time.sleep(0.05)
    raise ConnectionError(f"the client's process does not start; {folder / LOG} says why")
