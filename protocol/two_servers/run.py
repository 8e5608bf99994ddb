"""The two-server protocol: sums and inner products of updates that clients share between two servers.

Spec: specs/two_servers.md. Terms: terms.py. The clients' role and the first server's in an upload:
upload_client.py and upload_server.py. The first server's in a question: asking.py. The second server: second.py. The dealer:
dealer.py. Here: all of them in one process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...crypto.entropy import Entropy
from ..core.errors import Fault
from ..core.session import DEALER, SECOND_SERVER, SERVER, Session
from ..drivers.in_process import InProcess, no_work
from ..drivers.roles import Effect, Party, Role, Step, Worked
from ..wire.messages import HEAD_BYTES, Task
from ..work.uploads import Policy
from .asking import GramAnswered, SumAnswered, Unanswered, ask_gram, ask_sum, asking_step, keep
from .dealer import DealerState, dealer_step
from .questions import Row
from .second import second_step
from .second_state import Second
from .slot_sums import SlotsAnswered, ask_slots, asking_slots_step, checked
from .slot_terms import SharedSlots
from .terms import ShareTerms, Words
from .upload_client import IdleSharer, client_step
from .upload_server import CollectingShares, SharesCollected, opening, server_step

MOST_ROWS = 16_384
"""Rows of one Gram question that the dealer deals for."""

Perform = Callable[[list[tuple[int, Task]]], Iterator[tuple[int, Worked]]]


def max_bytes(terms: ShareTerms, rows: int) -> int:
    """The largest message of uploads, sums, and Gram questions of up to this many rows."""
    return HEAD_BYTES + 8 * max(terms.length, rows * (terms.columns + rows))


def client_parties(clients: Iterable[int], run: bytes, terms: ShareTerms, policy: Policy, entropy: Entropy) -> dict[int, Party]:
    """All clients, idle."""
    return {i: Party(i, IdleSharer(i, run, terms, policy, entropy), client_step) for i in clients}


def helper_parties(run: bytes, terms: ShareTerms, policy: Policy, entropy: Entropy) -> dict[int, Party]:
    """The second server and the dealer."""
    return {
        SECOND_SERVER: Party(SECOND_SERVER, Second(run, terms, policy, entropy), second_step),
        DEALER: Party(DEALER, DealerState(terms, MOST_ROWS, entropy), dealer_step),
    }


def collect(
    network: InProcess,
    parties: Mapping[int, Role],
    terms: ShareTerms,
    sessions: Sequence[tuple[Session, str, tuple[str, ...], bytes]],
    perform: Perform = no_work,
    slots: SharedSlots | None = None,
) -> list[SharesCollected]:
    """Play uploads. sessions: each with its kind of work, the models' names and their bytes. parties: clients and helpers.

    slots: what the sessions are about, if it is slots; terms are theirs then. Who committed to other counts is on record and left
    out.
    """
    servers = {
        session.digest: Party(SERVER, CollectingShares(session, terms, slots=slots), server_step) for session, *_ in sessions
    }
    most = 0 if slots is None else slots.most
    first = ((SERVER, effect) for session in sessions for effect in opening(*session, most=most))
    network.run(parties, servers, first, perform)
    ended: list[SharesCollected] = [server.state for server in servers.values()]
    if slots is None:
        return ended
    with network.timed(SERVER):
        ended = [checked(slots, collected) for collected in ended]
    lying = [i for collected in ended for i in collected.without]
    network.faults += [Fault(i, "a commitment that is not to the shares that it sent") for i in lying]
    return ended


def gram(
    network: InProcess,
    parties: Mapping[int, Role],
    terms: ShareTerms,
    run: bytes,
    number: int,
    rows: Sequence[tuple[Row, Words]],
    entropy: Entropy,
) -> GramAnswered | Unanswered:
    """Play a Gram question. rows: updates with the first server's shares; those of one session next to each other."""
    state, effects = ask_gram(terms, run, number, [row for row, _ in rows], [share for _, share in rows], entropy)
    answer: GramAnswered | Unanswered = _play(network, parties, state, effects)
    return answer


def sums(
    network: InProcess,
    parties: Mapping[int, Role],
    terms: ShareTerms,
    run: bytes,
    number: int,
    source: bytes,
    weights: Sequence[tuple[int, int, Words]],
) -> SumAnswered | Unanswered:
    """Play one weighted sum of one session's updates. weights: client, weight and share, by ascending client."""
    answer: SumAnswered | Unanswered = _play(network, parties, *ask_sum(terms, run, number, source, weights))
    return answer


def slot_sums(
    network: InProcess, parties: Mapping[int, Role], slots: SharedSlots, run: bytes, number: int, collected: SharesCollected
) -> SlotsAnswered | Unanswered:
    """Play the question about an upload into slots."""
    state, effects = ask_slots(slots, run, number, collected)
    answer: SlotsAnswered | Unanswered = _play(network, parties, state, effects, asking_slots_step)
    return answer


def forget(network: InProcess, parties: Mapping[int, Role], run: bytes, number: int, rows: Sequence[Row]) -> None:
    """Make the second server forget everything but these rows, which must be grouped by session."""
    network.run(parties, {}, [(SERVER, keep(run, number, rows))], no_work)


def _play(
    network: InProcess, parties: Mapping[int, Role], state: Any, effects: Iterable[Effect], step: Step = asking_step
) -> Any:
    server = Party(SERVER, state, step)
    network.run(parties, {state.question: server}, ((SERVER, effect) for effect in effects), no_work)
    return server.state
