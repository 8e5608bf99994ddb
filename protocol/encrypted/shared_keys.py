"""The base of the view of encryption: what clients share, and the keys that the server relays."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import PRODUCTS, SUMS
from ...crypto.ckks import Encrypted as Ciphertexts
from ..answers import Snapshot
from ..errors import ProtocolError
from ..gate import Rules
from ..group_seed import agree, session_of
from ..held_view import HeldView, holding
from ..in_process import Fault, InProcess
from ..leverage import Row
from ..messages import HEAD_BYTES, Task
from ..participant import Unfit
from ..roles import Effect, Learned, Party, Worked
from ..session import SERVER
from ..sides import ServerSide
from ..sketch_keys import SketchSecret
from ..uploads import from_bytes
from ..view import Setup
from ..view_base import Clients
from . import keys as encrypted_keys
from . import scores as encrypted_scores
from .client import client_step
from .client_phases import Idle, Policy
from .keys import Failed, KeyName, RelayedKey
from .messages import SEALED_BYTES

Perform = Callable[[list[tuple[int, Task]]], Iterator[tuple[int, Worked]]]
OF_ALL = "nothing without the seed that every client holds; with it, all of it"


class EncryptedServer(ServerSide):
    """What the server holds beside: encrypted sketches of the round and of remembered updates, and keys, public or sealed."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[KeyName, RelayedKey] = {}
        self.sketches: dict[str, Mapping[int, Ciphertexts]] = {}
        self.kept: dict[str, Mapping[int, Ciphertexts]] = {}
        self.scores: dict[str, encrypted_scores.Compared] = {}
        self.splits: dict[str, NDArray[np.float64]] = {}  # the Gram matrix of a split's updates, by their handle
        self.shown: dict[str, list[Row]] = {}  # what members have been sent sums of, by the updates' handle: of the survivors


class SharedKeys(HeldView):
    """Clients that agreed on a seed, from which every key follows. k: measurements of a sketch."""

    server: EncryptedServer

    def __init__(self, setup: Setup, policy: Policy, rules: Rules, k: int, unfit: Unfit) -> None:
        session = session_of("encrypted", setup.run, setup.clients)
        agreed = agree(session, setup.entropy, setup.tap, check=setup.verify)
        seed, exchanged = agreed.seed, agreed.network
        network = InProcess(setup.tap, max_bytes=HEAD_BYTES, computers=setup.workers, judge=setup.judge)
        network.add_costs(exchanged)
        network.faults += exchanged.faults
        network.messages, network.bytes_up, network.bytes_down = exchanged.messages, exchanged.bytes_up, exchanged.bytes_down
        d = len(setup.initial)
        secret = SketchSecret(seed, setup.run, policy.keys, d, min(k, max(d // 2, 1)))
        conduct = holding(unfit, lambda task: (lambda: secret(b"")) if policy.keys == "run" else None)
        super().__init__(setup, "clients", rules, network, conduct)
        self.server = EncryptedServer()
        self._policy = policy
        self._everybody = session.roster
        self._sketch = secret
        self._holders = {i: Party(i, Idle(i, setup.run, policy, seed, self._sketch, d), client_step) for i in session.roster}
        self._opened: dict[bytes, NDArray[np.float32]] = {}  # at the clients: means by session digest
        network.allow(PRODUCTS.context_bytes + PRODUCTS.encrypting_bytes + SEALED_BYTES + HEAD_BYTES)
        network.allow(-(-(d + 2) // SUMS.slots) * (SUMS.ciphertext_bytes + 4) + SEALED_BYTES + HEAD_BYTES)

    def _run(self, parties: Mapping[bytes, Party], opening: Iterable[Effect], perform: Perform | None = None) -> None:
        """Play these sessions of the server among the clients that hold keys."""
        sent: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in opening)
        self._network.run(self._holders, parties, sent, perform or (lambda tasks: iter(())), self._learn)

    def _learn(self, client: int, effect: Learned) -> None:
        if effect.session not in self._opened:
            self._opened[effect.session] = from_bytes(effect.vector)

    def _failed(self, ended: Failed, what: str) -> None:
        reason = f"{what} failed at stage {ended.stage}: {ended.have} of {ended.need} were there"
        self._network.faults.append(Fault(SERVER, reason))

    def _new_keys(self, rosters: Mapping[KeyName, Clients]) -> dict[KeyName, RelayedKey]:
        """A fresh key for each name, made by the lowest client that answers; those that nobody made are left out."""
        states = {name: encrypted_keys.Asking(name, name.session(roster)) for name, roster in rosters.items()}
        parties = {name: Party(SERVER, state, encrypted_keys.server_step) for name, state in states.items()}
        opening = [effect for state in states.values() for effect in encrypted_keys.ask(state)]
        self._run({states[name].session.digest: party for name, party in parties.items()}, opening)
        found = {}
        for name, party in parties.items():
            if isinstance(party.state, encrypted_keys.Keyed):
                found[name] = party.state.key
            else:
                self._failed(party.state, f"the key {name.name} of round {name.round}")
        return found

    def _sketch_key(self, round: int, label: str, roster: Clients) -> RelayedKey:
        """The key of sketches: the run's, or of the updates of this round and label. Raises ProtocolError if nobody makes one."""
        of_run = self._policy.keys == "run"
        name = KeyName(self._setup.run, "products", 0 if of_run else round, "all" if of_run else label)
        if name not in self.server.keys:
            roster = self._everybody if of_run else roster
            self.server.keys |= self._new_keys({name: roster})
            if name not in self.server.keys:
                raise ProtocolError(f"no client made the key for the sketches of {label}", roster[0])
        return self.server.keys[name]

    def _go_on(self, snapshot: Snapshot) -> None:
        """Clients that answer in no session up to the snapshot's again."""
        for i, party in self._holders.items():
            latest = max(snapshot.next_round.get(i, {}).values(), default=0)
            party.restart(replace(party.state, round=latest, spent=frozenset()))
