"""The masked sum: the server learns the sum of the survivors' vectors and nothing else about them (SecAgg+, hardened).

Bonawitz et al. 2017; Bell et al. 2020. Spec: specs/masked_sum.md. Terms and policy: terms.py. The client's role:
client.py, and which sums it takes part in: given.py. The server's: server.py, and with a journal:
journal.py. Here: a whole session in one process.

One session gives one sum. Where clusters are public, each cluster has a session of its own: its own roster, graph and masks.
Sums of one update that overlap are proposed to one roster, with weight 0 for whom a sum leaves out.
"""

from collections.abc import Callable, Iterator, Mapping

from ...crypto.agreement import KeyExchange, exchange_keys
from ...crypto.entropy import Entropy
from ...crypto.identity import SigningKey, Verify, verify
from ..core.link import Tap
from ..core.session import SERVER
from ..drivers.in_process import InProcess
from ..drivers.roles import Deadline, Party, Worked
from ..parts.charter import Charter
from ..parts.members import Members
from ..wire.messages import HEAD_BYTES, Task
from .client import Idle, client_step
from .messages import MESSAGES, SEALED_SHARES_BYTES
from .server import Advertising, NoSum, Unmasked, propose, server_step
from .terms import Plan, Ring, SumPolicy, SumTerms
from .transcript import Transcript


def parties_of(
    members: Members, charter: Charter, model: bytes, policy: SumPolicy, entropy: Entropy, verify: Verify = verify
) -> dict[int, Party]:
    """All clients, idle. verify: how they check signatures."""

    return {
        i: Party(i, idle_of(charter, i, identity, policy, entropy, model, verify), client_step)
        for i, identity in members.identities.items()
    }


def idle_of(
    charter: Charter,
    me: int,
    identity: SigningKey,
    policy: SumPolicy,
    entropy: Entropy,
    model: bytes,
    verify: Verify = verify,
    exchange: KeyExchange = exchange_keys,
) -> Idle:
    """A client before its first sum under this charter."""
    spending = None
    if charter.numbers.noise is not None:
        from .spending import SumSpending  # here, as it loads an accountant

        spending = SumSpending.of(charter, me)
    return Idle(Transcript(charter, me), policy, identity, entropy, model, verify=verify, exchange=exchange, spending=spending)


def max_bytes(terms: SumTerms) -> int:
    """The largest message of a session: an input, the shares of all neighbours of one client, or a proposal with weights."""
    shares = terms.neighbours * (68 * terms.neighbours + SEALED_SHARES_BYTES + 16)
    return HEAD_BYTES + max(terms.input_bytes, shares, len(terms.weights))


def masked_sum(
    plan: Plan, parties: Mapping[int, Party], vectors: Callable[[int], Ring], tap: Tap | None = None, *, record: bool = False
) -> tuple[Unmasked | NoSum, InProcess]:
    """Play one session in one process. vectors: a client's input, ring (length,), asked for when its masks stand.

    parties: the clients, idle. Returns how it ended, with the network that carried it.
    """
    session = plan.session
    network = InProcess(tap, kinds=MESSAGES, max_bytes=max_bytes(plan.terms), record=record)
    server = Party(SERVER, Advertising(plan), server_step)

    def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
        return ((client, Worked(vectors(client), 0)) for client, _ in tasks)

    network.run(parties, {session.digest: server}, ((SERVER, send) for send in propose(plan)), perform)
    for client in session.roster:
        parties[client].handle(Deadline())
    return server.state, network
