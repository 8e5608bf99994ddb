"""What a coordinator says first, and what a client of its run makes of it: its own side, how it is made, and who is who.

Where they differ in what a client relies on (the protection, the first models, who is who), it takes no part.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
from torch import nn

from ...protocol.core.errors import Refused
from ...protocol.core.session import RUN_BYTES
from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.clients import masking_clients
from ...protocol.masked.protection import Masked
from ...protocol.pki.names import name_of
from ...protocol.pki.standing import Standing
from ...protocol.two_servers.clients import sharing_clients
from ...protocol.two_servers.protection import TwoServer
from ...protocol.uploaded.clients import transforming_clients, uploading_clients
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from ...protocol.view.protection import Protection
from ...protocol.work.listed import Listed
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import to_bytes
from ..data.given import CsvClients
from ..data.own import Alone, OwnData
from .parties import Parties
from .scenario import Scenario

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a coordinator says first. drawn: for this run, which it names. known: SHA-256 of the first models. protection: how it
    prints.
    """

    client: int
    drawn: bytes
    clients: tuple[int, ...]
    shape: tuple[int, ...]
    classes: int
    known: bytes
    protection: str

    @classmethod
    def of(cls, data: bytes) -> "Greeting":
        """Raises Refused."""
        try:
            client, drawn, clients, shape, classes, known, protection = cbor2.loads(data)
            found = cls(
                int(client), bytes(drawn), tuple(map(int, clients)), tuple(map(int, shape)), int(classes), known, protection
            )
        except (TypeError, ValueError, OverflowError, cbor2.CBORDecodeError):
            raise Refused("what the coordinator says first is not a greeting: all parties need the same release") from None
        if found.client not in found.clients or len(set(found.clients)) != len(found.clients) or len(found.drawn) != RUN_BYTES:
            raise Refused("what the coordinator says first does not add up")
        return found


def maker_of(protection: Protection[Any]) -> Maker:
    """How clients under this protection are made. Raises Refused for one that is not played between processes yet."""
    match protection:
        case Masked():
            return masking_clients(protection)
        case Plain():
            return uploading_clients()
        case Permuted():
            return transforming_clients(protection.transform, protection.keys)
        case Encrypted():
            from ...protocol.encrypted.clients import encrypting_clients  # here, as it loads a library of ciphertexts

            return encrypting_clients(protection)
        case TwoServer():
            return sharing_clients(protection)
    raise Refused(f"{protection!r} is not played between processes yet; use Masked, Plain, Permuted, Encrypted or TwoServer")


def own_parties(scenario: Scenario[Any], greeting: Greeting, own: Path | None, data: Path | None) -> Parties:
    """The client's own side of the run. own: its data; None for its share of the scenario's. Raises Refused, ValueError."""
    if repr(scenario.protection) != greeting.protection:
        raise Refused(f"the coordinator plays {greeting.protection:.300}, where this client agrees to {scenario.protection!r}")
    mine = replace(scenario, adversary=None, faults=None)
    if own is not None:
        table = scenario.data.agreed() if isinstance(scenario.data, CsvClients) and Path(scenario.data.path).exists() else None
        source = OwnData(own, greeting.shape, greeting.classes, agreed=table)
        mine = replace(mine, data=source, partition=Alone(greeting.client))
    found = Parties(mine, data)
    if greeting.client not in found.population.clients:
        raise Refused(f"the scenario has no client {greeting.client}")
    models = hashlib.sha256(b"".join(map(to_bytes, (found.setup.initial, *found.setup.others)))).digest()
    if models != greeting.known:
        drawn = isinstance(scenario.model, nn.Module)
        why = "; a module's weights are drawn wherever the file is read: let model be a function of shape and classes"
        told = "the coordinator begins with another model: give both the same scenario, with the same seed"
        raise Refused(told + why * drawn)
    return found


def listed_of(greeting: Greeting, standing: Standing | None) -> tuple[bytes, Listed | None]:
    """The run's name, and who is who in it, by the directory of the client's own folder. Raises Refused, Untrusted."""
    if standing is None:
        return greeting.drawn, None
    if greeting.client != standing.party:
        raise Refused(f"the coordinator takes {name_of(standing.party)} for another client")
    run = standing.directory.run_of(greeting.drawn)
    return run, Listed(standing.identities, standing.directory.enrolled(greeting.clients), partial(standing.enter, run))
