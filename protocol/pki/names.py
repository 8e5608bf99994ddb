"""Parties by name, as certificates, files and commands have them: coordinator, second-server, dealer, client-0, client-1 ..."""

import re

from ..core.session import DEALER, MAX_ID, SECOND_SERVER, SERVER

SERVERS = {SERVER: "coordinator", SECOND_SERVER: "second-server", DEALER: "dealer"}
CLIENT_USES = ("pair seed", "pairs", "seed", "sums")
"""What a client signs for: the names of roles, as `Maker.identities` of every protection has them."""
SERVER_USES = ("link",)
"""What a server signs for: the answer by which it shows clients who it is (hello.py)."""
_CLIENT = re.compile(r"client-(0|[1-9][0-9]{0,9})")
_IDS = {name: id for id, name in SERVERS.items()}


def name_of(party: int) -> str:
    """Raises ValueError for what is no party's id."""
    if party in SERVERS:
        return SERVERS[party]
    if not 0 <= party <= MAX_ID:
        raise ValueError(f"{party} is no party's id")
    return f"client-{party}"


def id_of(name: str) -> int:
    """Raises ValueError for what is no party's name."""
    if name in _IDS:
        return _IDS[name]
    found = _CLIENT.fullmatch(name)
    if found is None or int(found[1]) > MAX_ID:
        raise ValueError(f"{name[:80]!r} is no party's name: {', '.join(_IDS)}, client-0, client-1 ...")
    return int(found[1])


def uses_of(party: int) -> tuple[str, ...]:
    """What a party signs for, ascending."""
    return CLIENT_USES if party >= 0 else SERVER_USES


def check_run(name: str) -> None:
    """Raises ValueError for what cannot name a run."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None:
        raise ValueError("a run is named by 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first")
