"""What clients say when they are offered models, with members of an adversary among them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..fl.clients.corruption import Computers
from ..fl.runs.simulation import seed_of
from ..protocol.view.work import LocalOffer
from .conduct import Conduct
from .handing import handed
from .knowledge import Level
from .offers import Offered, OfferedTogether, whose


class Choosing:
    """Choices of clients, some of them corrupt. places: of members, by id."""

    def __init__(self, conduct: Conduct, computers: Computers, places: Mapping[int, int]) -> None:
        self._conduct, self._computers, self._places = conduct, computers, places
        self._clients = tuple(sorted(computers.clients))
        self._judged: dict[tuple[int, int], int | None] = {}  # honest choices of the latest round, by round and client

    def judge(self, offer: LocalOffer, /) -> int | None:
        """What a client says when it is offered models; None where it is a member and silent."""
        conduct = self._conduct
        members = conduct.members.among(self._clients, offer.roster, offer.round, self._computers.seed)
        attack = conduct.choice
        if offer.client not in members:
            return self._honestly(offer)
        if offer.round in conduct.silent:
            return None
        if attack is None or offer.round not in conduct.when:
            return self._honestly(offer)
        said: int | None = handed(attack, self._offered(offer, members, attack.needs, self._of(offer)))
        return said

    def forged(self, offer: LocalOffer, members: frozenset[int], honest: Mapping[int, int]) -> int:
        """The slot that a member says serves it best, where clients choose inside their work. honest: what each takes."""
        attack: Any = self._conduct.choice
        return int(handed(attack, self._offered(offer, members, attack.needs, honest.get)))

    def _of(self, offer: LocalOffer) -> Callable[[int], int | None]:
        """What clients honestly choose among these models."""
        return lambda client: self._honestly(replace(offer, client=client))

    def _honestly(self, offer: LocalOffer) -> int | None:
        """The client's honest choice, formed once."""
        key = (offer.round, offer.client)
        if key not in self._judged:
            self._judged = {k: v for k, v in self._judged.items() if k[0] == offer.round}
            self._judged[key] = self._computers.judge(offer)
        return self._judged[key]

    def _offered(self, offer: LocalOffer, members: frozenset[int], needs: Level, honest: Callable[[int], int | None]) -> Offered:
        seed, computers = self._computers.seed, self._computers
        drawer = offer.client if self._conduct.randomness == "member" else "shared"
        known: dict[str, Any] = {
            "member": offer.client,
            "place": self._places[offer.client],
            "members": len(self._places),
            "roster": offer.roster,
            "round": offer.round,
            "examples": computers.clients[offer.client].train,
            "classes": computers.classes,
            "module": computers.module,
            "models": offer.models,
            "honest": honest(offer.client),
            "rng": np.random.default_rng(seed_of(seed, "adversary", "choice", offer.round, drawer)),
            "agreed": np.random.default_rng(seed_of(seed, "adversary", "agreed")),
        }
        if needs == Level.OWN:
            return Offered(**known)
        others = {i: honest(i) for i in whose(self._conduct.knows, offer.roster, members)}
        return OfferedTogether(**known, chosen={i: choice for i, choice in others.items() if choice is not None})
