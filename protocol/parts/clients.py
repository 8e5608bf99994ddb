"""The clients of a run, as the parts of its view reach them in one process."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..drivers.roles import Party
from ..view.answers import Remembered, Snapshot, Traffic, Vector, Work
from ..view.protection import Setup
from ..work.conduct import Conduct
from ..work.lending import Lending
from ..work.making import Making
from ..work.opening import Opening
from ..work.owned import Owned, starts_of
from ..work.participant import Participant
from ..work.sketch_keys import SketchKeys
from ..work.sketching import Sketcher

MINE = "own models"
"""Under this name a client stores which of its models are its own alone."""


class Clients:
    """The clients of a run, each an object of its own."""

    def __init__(
        self,
        setup: Setup,
        roles: Iterable[Party],
        conduct: Conduct,
        secret: SketchKeys | None = None,
        lending: Lending | None = None,
    ) -> None:
        opening, making = Opening(), Making()
        self.parties = {
            role.id: Participant(
                role,
                conduct,
                opening,
                Owned(role.id, starts_of(setup), making, conduct.opened, lending),
                None if secret is None else Sketcher(secret),
            )
            for role in roles
        }

    # --- keeping ----------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`. That a round is over clients are told (`Handles.over`)."""

    def save(self) -> Snapshot:
        """See `Part`."""
        retained: dict[str, NDArray[Any]] = {}
        for i, party in self.parties.items():
            if (sketcher := party.sketcher) is not None:
                retained |= {f"{handle} of {i}": vector for handle, vector in sketcher.kept.items()}
                retained |= {f"{handle} key of {i}": np.frombuffer(key, np.uint8) for handle, key in sketcher.keys.items()}
        models, holders = self._models()
        rounds = {i: dict(p.role.state.next_round) for i, p in self.parties.items()}
        mine = {i: {MINE: json.dumps(sorted(p.owned.mine)).encode()} for i, p in self.parties.items() if p.owned.mine}
        return Snapshot(models, retained, rounds, Traffic(), holders=holders, stored=mine)

    def _models(self) -> tuple[dict[str, Vector], dict[str, dict[str, tuple[int, ...]]]]:
        """What clients hold, each once: by the name that it is kept by, and of every model, who holds what is kept so."""
        found: dict[str, dict[bytes, list[int]]] = {}
        kept: dict[bytes, Vector] = {}
        for i, party in sorted(self.parties.items()):
            for name, model in party.owned.models.items():
                found.setdefault(name, {}).setdefault(model.digest, []).append(i)
                kept[model.digest] = model.vector
        models: dict[str, Vector] = {}
        holders: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, versions in found.items():
            for digest, clients in versions.items():
                key = f"client {clients[0]}'s {name}"
                models[key] = kept[digest]
                holders.setdefault(name, {})[key] = tuple(clients)
        return models, holders

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered]) -> None:
        """See `Part`."""
        for i, party in self.parties.items():
            party.forget()
            rounds = {kind: round for kind, round in snapshot.next_round.get(i, {}).items() if kind in get_args(Work)}
            party.role.restart(replace(party.role.state, next_round=rounds))
            held = {n: snapshot.models[key] for n, keys in snapshot.holders.items() for key, who in keys.items() if i in who}
            party.owned.restore(held, json.loads(snapshot.stored.get(i, {}).get(MINE, b"[]")))
            if (sketcher := party.sketcher) is not None:
                of = {h.name: snapshot.remembered.get(f"{h.name} of {i}") for h in remembered}
                keys = {h.name: snapshot.remembered.get(f"{h.name} key of {i}") for h in remembered}
                sketcher.kept = {name: vector for name, vector in of.items() if vector is not None}
                sketcher.keys = {name: key.tobytes() for name, key in keys.items() if key is not None}
