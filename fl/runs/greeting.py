"""What a coordinator says first, and what a client of its run makes of it: its own side, how it is made, and who is who.

Where they differ in what a client relies on (the protection, the first models, who is who), it takes no part.
"""

import ast
import hashlib
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

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
from ...protocol.wire.codec import plain_in
from ...protocol.work.listed import Listed
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import to_bytes
from ..data.agreed import agreed_on
from ..data.own import Alone, OwnData
from .agreement import Terms, checked
from .parties import Parties
from .scenario import Scenario

MOST_PRINTED = 2000
"""Characters of a protection as it prints, above which its fields are not looked at."""
MOST_CLASSES, MOST_WIDE = 2**18, 2**24
"""Labels, and numbers of one record, that a coordinator may name: a model is made of both before it is known to be the same."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a coordinator says first. drawn: for this run, which it names. known: SHA-256 of the first models. protection: how it
    prints. terms: by what else it works (agreement.py).
    """

    client: int
    drawn: bytes
    clients: tuple[int, ...]
    shape: tuple[int, ...]
    classes: int
    known: bytes
    protection: str
    terms: Terms

    @classmethod
    def of(cls, data: bytes) -> "Greeting":
        """Raises Refused."""
        try:
            client, drawn, clients, shape, classes, known, protection, terms = plain_in(data)
            whom, wide = tuple(map(int, clients)), tuple(map(int, shape))
            found = cls(client, drawn, whom, wide, classes, known, protection, checked(terms))
        except (TypeError, ValueError, OverflowError):
            raise Refused("what the coordinator says first is not a greeting: all parties need the same release") from None
        right = [type(item) for item in (client, classes, drawn, known, protection)] == [int, int, bytes, bytes, str]
        listed = client in whom and len(set(whom)) == len(whom)
        sized = right and 0 < classes <= MOST_CLASSES and all(0 < n <= MOST_WIDE for n in wide) and prod(wide) <= MOST_WIDE
        if not sized or not listed or len(drawn) != RUN_BYTES:
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
        raise Refused(_other_protection(greeting.protection, repr(scenario.protection)))
    mine = replace(scenario, adversary=None, faults=None)
    if own is not None:
        source = OwnData(own, greeting.shape, greeting.classes, agreed=agreed_on(scenario.data))
        mine = replace(mine, data=source, partition=Alone(greeting.client))
    found = Parties(mine, data, here=(greeting.client,))
    if greeting.client not in found.population.clients:
        raise Refused(f"the scenario has no client {greeting.client}")
    if (models := _first_models(found)) != greeting.known:
        if not isinstance(scenario.model, nn.Module) and _first_models(Parties(mine, data, here=(greeting.client,))) != models:
            raise Refused(
                "the model's function draws other weights each time that it is called: let them come from torch's generator,"
                " which is seeded before it, and not from numpy's or from a seed of its own"
            )
        drawn = isinstance(scenario.model, nn.Module)
        why = "; a module's weights are drawn wherever the file is read: let model be a function of shape and classes"
        told = "the coordinator begins with another model: give both the same scenario, with the same seed"
        raise Refused(told + why * drawn)
    return found


def _first_models(parties: Parties) -> bytes:
    """Their digest."""
    return hashlib.sha256(b"".join(map(to_bytes, (parties.setup.initial, *parties.setup.others)))).digest()


def _other_protection(theirs: str, ours: str) -> str:
    """In which fields they differ, where both are of one kind; else both."""
    there, here = _fields(theirs), _fields(ours)
    if there is None or here is None or there[0] != here[0]:
        return f"the coordinator plays {theirs:.300}, where this client agrees to {ours}"
    names = [name for name in (*here[1], *there[1]) if here[1].get(name) != there[1].get(name)]
    found = [f"{name}={there[1].get(name)}, where this client agrees to {here[1].get(name)}" for name in dict.fromkeys(names)]
    return f"the coordinator plays {here[0]} with {'; '.join(found)}"[:600]


def _fields(text: str) -> tuple[str, dict[str, str]] | None:
    """Of a value as it prints: its kind, and its fields as text; None of what does not print so."""
    if len(text) > MOST_PRINTED:
        return None
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or call.args or any(of.arg is None for of in call.keywords):
        return None
    return ast.unparse(call.func), {str(of.arg): ast.unparse(of.value) for of in call.keywords}


def listed_of(greeting: Greeting, standing: Standing | None) -> tuple[bytes, Listed | None]:
    """The run's name, and who is who in it, by the directory of the client's own folder. Raises Refused, Untrusted."""
    if standing is None:
        return greeting.drawn, None
    if greeting.client != standing.party:
        raise Refused(f"the coordinator takes {name_of(standing.party)} for another client")
    run = standing.directory.run_of(greeting.drawn)
    enrolled = standing.directory.enrolled(greeting.clients)
    return run, Listed(standing.identities, enrolled, partial(standing.enter, run))
