"""The passphrase of private keys: from the environment or a prompt, never an argument, which others on the machine can read."""

import getpass
import os
import sys
import threading
from collections.abc import Callable

VARIABLE = "CLOISTER_KEYS_PASSPHRASE"


def passphrase() -> Callable[[], bytes]:
    """From the environment, or asked for once, when it is needed: at the start alone, in the main thread, as a prompt in the
    midst of a run would hold up whoever serves others. Its keys are to be opened once before links are.
    """
    known: list[bytes] = []

    def ask() -> bytes:
        if not known:
            known.append(_given() or _asked("passphrase: "))
        return known[0]

    return ask


def new_passphrase(encrypt: bool) -> bytes:
    """For keys that are about to be made; empty unless they are to be encrypted."""
    if not encrypt:
        return b""
    if given := _given():
        return given
    first = _asked("new passphrase: ")
    if first != _asked("again: "):
        raise ValueError("the two passphrases differ")
    return first


def _given() -> bytes:
    return os.environ.get(VARIABLE, "").encode()


def _asked(prompt: str) -> bytes:
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("its keys are encrypted by now, and no passphrase was given at the start: start it again")
    if not sys.stdin.isatty():
        raise ValueError(f"a passphrase is needed: set {VARIABLE}, or run this in a terminal")
    given = getpass.getpass(prompt).encode()
    if not given:
        raise ValueError("an empty passphrase")
    return given
