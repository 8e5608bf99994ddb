"""What a client that is compared stores before it answers, by key, and goes on from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import cbor2

from ..privacy.ledger import Ledger
from .messages import PairClouds

GROUP, SAID, LEDGER = "pairs group", "pairs said", "pairs ledger"
"""Keys: of the secret that all clients share, of the one answer for all, and of the ledger, but for its releases."""
_SPENT, _EDGE, _RELEASE = "pairs spent ", "pairs edge ", "pairs release "


@dataclass(frozen=True, slots=True)
class AnswerForAll:
    """An answer for all. round: in which it was first given. context: of the projection that it is under."""

    round: int
    context: bytes
    clouds: PairClouds


def spent_key(other: int) -> str:
    """Of how often it has answered for this client."""
    return f"{_SPENT}{other}"


def spent_entry(count: int) -> bytes:
    """See `spent_key`."""
    return count.to_bytes(4, "big")


def edge_key(other: int) -> str:
    """Of what it was told about this client."""
    return f"{_EDGE}{other}"


def edge_entry(edge: bool) -> bytes:
    """See `edge_key`."""
    return bytes([edge])


def said_entry(said: AnswerForAll) -> bytes:
    """The last answer for all."""
    clouds = said.clouds
    return cbor2.dumps([said.round, said.context, clouds.own, clouds.other, clouds.reference])


def entries_of(
    spent: Mapping[int, int], edges: Mapping[int, bool], said: AnswerForAll | None, group: bytes | None
) -> dict[str, bytes]:
    """All of a client's. The arguments are fields of `client.PairingClient`."""
    found = {spent_key(i): spent_entry(count) for i, count in spent.items()}
    found |= {edge_key(i): edge_entry(edge) for i, edge in edges.items()}
    found |= {} if said is None else {SAID: said_entry(said)}
    return found | ({} if group is None else {GROUP: group})


def fields_of(stored: Mapping[str, bytes]) -> dict[str, Any]:
    """The same fields back, of entries among which there may be others."""
    said = None
    if SAID in stored:
        round, context, *clouds = cbor2.loads(stored[SAID])
        said = AnswerForAll(round, context, PairClouds(*clouds))
    return {
        "spent": {i: int.from_bytes(entry, "big") for i, entry in _numbered(_SPENT, stored).items()},
        "edges": {i: bool(entry[0]) for i, entry in _numbered(_EDGE, stored).items()},
        "said": said,
        "group": stored.get(GROUP),
    }


def ledger_entries(ledger: Ledger | None, since: int = 0) -> dict[str, bytes]:
    """Of a ledger and its releases, from this one on: each has an entry, so that one more does not write all anew."""
    if ledger is None:
        return {}
    releases = {f"{_RELEASE}{k}": _json(of.as_dict()) for k, of in enumerate(ledger.releases) if k >= since}
    return {LEDGER: _json(replace(ledger, releases=()).as_dict()), **releases}


def ledger_of(stored: Mapping[str, bytes]) -> Ledger | None:
    """The ledger of such entries, if there is one."""
    if LEDGER not in stored:
        return None
    releases = [json.loads(entry) for _, entry in sorted(_numbered(_RELEASE, stored).items())]
    return Ledger.from_dict({**json.loads(stored[LEDGER]), "releases": releases})


def _json(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain).encode()


def _numbered(kind: str, stored: Mapping[str, bytes]) -> dict[int, bytes]:
    return {int(key.removeprefix(kind)): entry for key, entry in stored.items() if key.startswith(kind)}
