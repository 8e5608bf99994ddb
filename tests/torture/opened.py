"""Which sums of inputs can be opened from all that clients said in masked sums, by whoever was sent all of it.

An input is hidden by its client's own mask and by one mask for each neighbour. Who has t shares of a client's self seed takes the
first off, and who has t of its mask key all others. What is left are sums over sets of inputs that masks tie together: a set can
be opened when the own masks of all in it can, and no mask ties it to a client whose input is not there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.link import Frame
from cloister.protocol.messages import decode

from .machine import Sent

_MOST = 1 << 26


@dataclass(slots=True)
class Masking:
    """What was said in one session. threshold: t. inputs: whose there are. near: whom each masked with. seeds, keys: by client,
    who handed out a share of its self seed, of its mask key. round: of the run.
    """

    round: int = 0
    threshold: int = 1
    inputs: set[int] = field(default_factory=set)
    near: dict[int, frozenset[int]] = field(default_factory=dict)
    seeds: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    keys: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))


def openable(said: Iterable[Sent], frames: Iterable[Frame], colluder: int | None) -> dict[int, list[frozenset[int]]]:
    """By round: the sets of clients whose sums can be opened. colluder: a client that hands the server all that it has."""
    found: dict[int, list[frozenset[int]]] = defaultdict(list)
    for masking in _sessions(said, frames).values():
        found[masking.round] += [frozenset(tied) for tied in _open(masking, colluder)]
    return found


def _sessions(said: Iterable[Sent], frames: Iterable[Frame]) -> Mapping[bytes, Masking]:
    sessions: dict[bytes, Masking] = defaultdict(Masking)
    for frame in frames:
        if frame.kind in ("Proposal", "MaskWith"):
            envelope = decode(frame.data, frame.sender, _MOST)
            if frame.kind == "Proposal":
                if envelope.message.session.digest == envelope.session:  # else it is another session's, and nobody joins it
                    masking = sessions[envelope.session]
                    masking.threshold, masking.round = envelope.message.share_threshold, envelope.message.round
            else:
                sessions[envelope.session].near[frame.receiver] = frozenset(envelope.message.neighbours)
    for sent in said:
        if sent.kind not in ("MaskedInput", "Reveal"):
            continue
        try:
            envelope = decode(sent.data, sent.client, _MOST)
        except ProtocolError:  # a byte of it was changed by whoever helps the server
            continue
        masking, message = sessions[envelope.session], envelope.message
        if sent.kind == "MaskedInput":
            masking.inputs.add(sent.client)
            continue
        for i in message.alive:
            masking.seeds[i].add(sent.client)
        for i in message.dropped:
            masking.keys[i].add(sent.client)
    return sessions


def _open(masking: Masking, colluder: int | None) -> Iterable[set[int]]:
    """The sets whose sums can be opened."""
    near, there = masking.near, masking.inputs
    helps = {colluder} & near.keys() if colluder is not None else set()

    def known(of: Mapping[int, set[int]], client: int) -> bool:
        holders = of.get(client, set()) | {i for i in helps if i in near.get(client, ())}
        return client in helps or len(holders) >= masking.threshold

    free = {i for i in near if known(masking.keys, i)}
    bare = {i for i in there if known(masking.seeds, i)}
    left = set(there)
    while left:
        tied, edge = set[int](), {left.pop()}
        while edge:
            tied |= edge
            ties = {j for i in edge - free for j in near.get(i, ()) if j not in free}
            edge = ties - tied
        left -= tied
        if tied <= bare:
            yield tied
