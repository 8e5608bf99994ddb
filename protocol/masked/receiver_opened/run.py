"""Receiver-opened sums: m receivers each get a weighted sum of their own, which no one else can open (pFedGraph, FedSaC).

Spec: specs/receiver_opened.md. Terms and policy: terms.py. The client's role: client.py. The
server's: server.py. Each sum is a masked sum (masked/sum.py) whose inputs carry one more mask, which the receiver
knows. Here: many of them in one process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ....crypto.entropy import Entropy
from ....crypto.fixed_point import Floats, Rounding
from ...core.errors import Fault
from ...core.link import Tap
from ...core.session import SERVER
from ...drivers.in_process import InProcess
from ...drivers.roles import Deadline, Effect, Learned, Party, Worked
from ...parts.members import Members
from ...wire.messages import HEAD_BYTES, Task
from ..server import Unmasked
from ..sum import masked_sum
from ..terms import Plan
from .client import OpeningClient, blinded_input, member_step
from .messages import MESSAGES
from .server import Inviting, SendersAgreed, forward, invite, server_step
from .terms import OpeningPolicy, ReceiverSum


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays. members: the clients' roles here. parties: the same clients' roles in the masked sum, idle."""

    members: Mapping[int, Party]
    parties: Mapping[int, Party]
    enrolled: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedSum:
    """What a receiver learned: sum of x_i a_i / largest, float32, shape (d,), of these survivors. Only the receiver has it."""

    total: NDArray[np.float32] = field(repr=False)
    survivors: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """How the openings ended: per receiver what it learned; who is missing learned nothing. networks: keys, then each sum's."""

    opened: Mapping[int, LearnedSum]
    networks: tuple[InProcess, ...]

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(fault for network in self.networks for fault in network.faults)


def members_of(
    identities: Members,
    run: bytes,
    policy: OpeningPolicy,
    entropy: Entropy,
    updates: Mapping[bytes, tuple[int, bytes]] = MappingProxyType({}),
) -> dict[int, Party]:
    """The clients' roles, in no session. updates: what they all hold."""
    states = {
        i: OpeningClient(i, run, policy, identity, identities.enrolled, entropy, updates)
        for i, identity in identities.identities.items()
    }
    return {i: Party(i, state, member_step) for i, state in states.items()}


def receiver_opened(
    openings: Sequence[ReceiverSum],
    cast: Cast,
    plan: Callable[[ReceiverSum, tuple[int, ...]], Plan],
    update: Callable[[int, ReceiverSum], tuple[Floats, Rounding]],
    tap: Tap | None = None,
    *,
    record: bool = False,
) -> Played:
    """Play the openings of one round in one process: all keys, then a masked sum for each, then the receivers.

    plan: of the masked sum of an opening among the senders that are left. update: a sender's vector, float32 or float64,
    shape (d,), and how it is rounded for this opening.
    """
    most = max(len(opening.session.roster) for opening in openings)
    largest = max(4 * opening.length for opening in openings)
    network = InProcess(tap, kinds=MESSAGES, max_bytes=HEAD_BYTES + 120 * most + largest, record=record)
    servers = {o.session.digest: Party(SERVER, Inviting(o, cast.enrolled), server_step) for o in openings}
    learned: dict[bytes, bytes] = {}

    def learn(_: int, effect: Learned) -> None:
        learned[effect.session] = effect.vector

    def carry(parties: Mapping[bytes, Party], effects: Sequence[Effect]) -> None:
        network.run(cast.members, parties, ((SERVER, effect) for effect in effects), _no_work, learn)

    carry(servers, [effect for opening in openings for effect in invite(opening)])
    networks, opened = [network], {}
    for opening in openings:
        agreed = servers[opening.session.digest].state
        if not isinstance(agreed, SendersAgreed):
            continue
        planned = plan(opening, agreed.senders)

        def blind(client: int, opening: ReceiverSum = opening, planned: Plan = planned) -> NDArray[np.unsignedinteger]:
            return blinded_input(cast.members[client].state, planned.session, *update(client, opening))

        end, sums = masked_sum(planned, cast.parties, blind, tap, record=record)
        networks.append(sums)
        if not isinstance(end, Unmasked):
            continue
        carry({}, [forward(agreed, end)])
        vector = learned.get(opening.session.digest)
        if vector is not None:
            opened[opening.receiver] = LearnedSum(np.frombuffer(vector, "<f4"), end.clients)
    for party in cast.members.values():
        party.handle(Deadline())
    return Played(opened, tuple(networks))


def _no_work(_: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
    return iter(())
