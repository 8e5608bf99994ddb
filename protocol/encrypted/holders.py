"""The clients of encryption in a view, which share a seed that every key follows from, and the keys that the server relays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...crypto.ckks import PRODUCTS, SUMS
from ..core.errors import NO_CLIENT, Silent
from ..core.session import SERVER
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Learned, Party
from ..parts.run import Ids, Run
from ..view.answers import Remembered, Snapshot
from ..wire.messages import HEAD_BYTES
from . import keys as encrypted_keys
from .client_phases import EncryptionPolicy
from .clients import KEYS
from .keys import KeyName, RelayedKey, Shortfall
from .messages import SEALED_BYTES

OF_ALL = "nothing without the seed that every client holds; with it, all of it"
OF_RUN, KEPT = "all", "key of the run"
"""The name of a key of the whole run, and what it is kept by."""
LAST, PROVEN = "makers of keys that nothing came of", "whether the key of the run has opened something"
LATE = "clients that were asked in vain"
"""What these are kept by."""
WITH_A_CLIENT = "every update in full: any one client holds the key that all updates are encrypted under"


def of_asked(clients: Ids) -> str:
    """Whom nothing came of, to be put behind what did not come: "; asked were clients 2 and 3"."""
    return f"; asked were client{'s' * (len(clients) > 1)} {', '.join(map(str, clients))}" if clients else ""


def _behind(clients: Iterable[int], others: Ids) -> list[int]:
    return [*(i for i in clients if i not in others), *others]


def _place(clients: list[int], client: int) -> int:
    return 1 + clients.index(client) if client in clients else 0


class Openings:
    """Of whoever plays a run: the sessions whose sums a client opened, which the server may not have heard of."""

    def __init__(self) -> None:
        self.found: set[bytes] = set()

    def learn(self, client: int, effect: Learned) -> None:
        """A client opened a sum."""
        self.found.add(effect.session)


class Holders:
    """Clients that hold keys, by id, and the keys that the server relays, public or sealed. openings: what clients opened."""

    def __init__(self, run: Run, policy: EncryptionPolicy, openings: Openings) -> None:
        setup, d = run.setup, len(run.setup.initial)
        self.everybody = tuple(sorted(setup.clients))
        self.policy = policy
        self.openings = openings
        self.keys: dict[KeyName, RelayedKey] = {}
        self.parties = run.clients.of(KEYS)
        self._run = run
        self._last: list[int] = []  # who made a key that nothing came of: others are asked before
        self._late: list[int] = []  # who was asked for a key, or to open something, and said nothing
        self._proven: set[KeyName] = set()  # keys of sketches by which another than their maker opened something
        run.network.allow(PRODUCTS.context_bytes + PRODUCTS.encrypting_bytes + SEALED_BYTES + HEAD_BYTES)
        run.network.allow(-(-(d + 2) // SUMS.slots) * (SUMS.ciphertext_bytes + 4) + SEALED_BYTES + HEAD_BYTES)

    @property
    def opened(self) -> set[bytes]:
        """Sessions whose sums a client opened, by digest."""
        return self.openings.found

    def play(self, parties: Mapping[bytes, Party], opening: Iterable[Effect]) -> None:
        """Play these sessions of the server among the clients that hold keys."""
        sent: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in opening)
        self._run.network.run(self.parties, parties, sent, no_work, self._run.learn)

    def failed(self, ended: Shortfall, what: str, key: RelayedKey | None = None) -> None:
        """Put on record how a session ended, and who made the key that it was under: it is `behind`."""
        reason = f"{what} failed at stage {ended.stage}: {ended.have} of {ended.need} were there"
        reason += of_asked(ended.asked)
        if key is not None:
            self.behind(key)
            reason += f"; client {key.holder}, who made its key, is asked last for the next"
        self._run.record.fault(SERVER, reason)

    def behind(self, key: RelayedKey) -> None:
        """Nothing came of this key, and perhaps nothing can, as the server sees neither its tag nor what is sealed: others are
        asked for the next ones. Of sketches, one that was of use before stays.
        """
        self._last = _behind(self._last, (key.holder,))
        if key.name not in self._proven:
            self.keys.pop(key.name, None)

    def new_keys(self, rosters: Mapping[KeyName, Ids]) -> dict[KeyName, RelayedKey]:
        """A fresh key for each name, made by the lowest client that answers, and last by those whose keys nothing came of, or who
        were asked for one and said nothing; names that nobody made one for are left out.
        """
        orders = {name: self.in_turn(roster) for name, roster in rosters.items()}
        states = {
            name: encrypted_keys.AskingKey(name, name.session(roster), orders[name][: encrypted_keys.TRIES])
            for name, roster in rosters.items()
        }
        parties = {name: Party(SERVER, state, encrypted_keys.server_step) for name, state in states.items()}
        opening = [effect for state in states.values() for effect in encrypted_keys.ask(state)]
        self.play({states[name].session.digest: party for name, party in parties.items()}, opening)
        found = {}
        for name, party in parties.items():
            if isinstance(party.state, encrypted_keys.Keyed):
                found[name] = party.state.key
                self.said_nothing(party.state.asked[: party.state.asked.index(party.state.key.holder)])
            else:
                self.failed(party.state, f"the key {name.name} of round {name.round}")
                self.said_nothing(party.state.asked)
        return found

    def said_nothing(self, asked: Ids) -> None:
        """These were asked for a key, or to open something, and nothing came: they are asked last, each round one fewer of them,
        as who is slow once is not for good, and whoever is always prompt would open everything.
        """
        self._late = _behind(self._late, asked)

    def in_turn(self, clients: Ids) -> Ids:
        """In the order in which they are asked: ascending, behind the others those of whom nothing came, and behind these those
        whose keys nothing came of.
        """
        return tuple(sorted(clients, key=lambda i: (_place(self._last, i), _place(self._late, i), i)))

    def _sketches_of(self, round: int, label: str) -> KeyName:
        return self._of_run if self.policy.keys == "run" else KeyName(self._run.setup.run, "products", round, label)

    def proven(self, key: RelayedKey) -> None:
        """Something was opened with this key of sketches by another than its maker."""
        self._proven.add(key.name)

    def is_proven(self, key: RelayedKey) -> bool:
        """Whether it was."""
        return key.name in self._proven

    def sketch_key(self, round: int, label: str, roster: Ids) -> RelayedKey:
        """The key of sketches: the run's, or of the updates of this round and label. Raises Silent if nobody makes one."""
        name = self._sketches_of(round, label)
        if name not in self.keys:
            roster = self.everybody if self.policy.keys == "run" else roster
            self.keys |= self.new_keys({name: roster})
            if name not in self.keys:
                raise Silent(f"{NO_CLIENT} made the key for the sketches of {label}", SERVER)
        return self.keys[name]

    @property
    def _of_run(self) -> KeyName:
        return KeyName(self._run.setup.run, "products", 0, OF_RUN)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self._late = self._late[1:]
        self.keys = {name: key for name, key in self.keys.items() if name == self._of_run}
        self._proven &= self.keys.keys()

    def save(self) -> Snapshot:
        """See `Part`."""
        key = self.keys.get(self._of_run)
        kept = {LAST: self._last, LATE: self._late}
        last = {name: np.array(of, np.int64) for name, of in kept.items() if of}
        proven = np.array([self._of_run in self._proven], np.int64)
        return Snapshot({}, last | ({} if key is None else {KEPT: key.packed, PROVEN: proven}), {}, self._run.record.traffic)

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`. A key of which a snapshot does not say whether it was of use is one that is not given up."""
        kept = snapshot.remembered
        self._last, self._late = (kept[name].tolist() if name in kept else [] for name in (LAST, LATE))
        self.keys = {self._of_run: RelayedKey.unpacked(self._of_run, kept[KEPT])} if KEPT in kept else {}
        self._proven = {name for name in self.keys if PROVEN not in kept or kept[PROVEN].any()}
