"""One masked sum among a few clients, for the tests: its terms, its inputs, and a network that loses or changes frames."""

from dataclasses import replace

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.session import Session
from cloister.protocol.masked.sum import Plan, SumPolicy, SumTerms, Unmasked, masked_sum, parties_of
from cloister.protocol.messages import decode
from cloister.protocol.parts.charter import Charter, Numbers
from cloister.protocol.parts.members import Members
from cloister.protocol.wire.codec import Envelope, encode

RUN, MODEL = bytes(range(16)), bytes(range(32))
KINDS = ("MaskKeys", "SealedShares", "Accepted", "MaskedInput", "SurvivorSignature", "Reveal")
"""What a client sends, stage by stage."""
UNHELD = frozenset({"update"})
"""The inputs of these sessions are numbers that the tests draw, and no held updates."""
LOOSE = SumPolicy(min_cohort=2, unheld=UNHELD)


def charter_of(enrolled, policy=LOOSE, **changes):
    """The charter of clients with this policy. changes: of its fields; `numbers` also by theirs."""
    numbers = Numbers(5, 32, 1.0, 100, policy.rules)
    return replace(Charter(RUN, MODEL, numbers, policy.dropped, enrolled), **changes)


def terms(n, **changes):
    """Terms of a complete graph with the least threshold that two survivor sets cannot both reach."""
    defaults = {"ring_bits": 32, "length": 5, "bits": 8, "clip": 1.0, "max_weight": 16, "neighbours": n - 1}
    defaults |= {"graph_seed": bytes(32), "model": MODEL}
    k = changes.get("neighbours", n - 1)
    return SumTerms(**{**defaults, "threshold": k // 2 + 1, **changes})


class Play:
    """A session of clients 1, 3, 5, ... whose inputs follow from `seed`."""

    def __init__(
        self, n, tap=None, *, threshold=2, policy=LOOSE, seed=0, record=False, vectors=None, round=0, charter=None, **changes
    ):
        self.roster = tuple(range(1, 2 * n, 2))
        self.entropy = SimulatedEntropy(seed)
        self.members = Members.enrol(self.roster, self.entropy)
        self.charter = charter_of(self.members.enrolled, policy, **(charter or {}))
        self.parties = parties_of(self.members, self.charter, MODEL, policy, self.entropy)
        self.session = Session("masked sum/update", RUN, round, "root", self.roster, threshold)
        self.terms = terms(n, **changes)
        self.plan = Plan.of(self.session, self.terms, self.charter)
        rng = np.random.default_rng(seed)
        top = self.terms.largest
        self.vectors = vectors or {i: rng.integers(0, top, self.terms.length, self.terms.dtype, True) for i in self.roster}
        self.tap, self.record = tap, record

    def run(self):
        self.end, self.network = masked_sum(self.plan, self.parties, self.vectors.__getitem__, self.tap, record=self.record)
        return self.end

    def plain(self, clients):
        """The sum without any protocol, in Python's integers."""
        mod = 2**self.terms.ring_bits
        return [sum(int(self.vectors[i][c]) for i in clients) % mod for c in range(self.terms.length)]

    def right(self):
        """Whether the end is the sum of the clients that it names."""
        return isinstance(self.end, Unmasked) and self.end.total.tolist() == self.plain(self.end.clients)

    def blamed(self):
        return {fault.blame for fault in self.network.faults}


def losing(fates):
    """A network on which client i is silent from the stage number fates[i] on."""

    def tap(frame):
        stage = fates.get(frame.sender)
        silent = stage is not None and frame.kind in KINDS[stage:]
        return [] if silent else [frame]

    return tap


def changing(kind, change, senders=None, receivers=None):
    """A network that applies `change` to the messages of one kind; change gives a message, several, or None to drop it."""

    def tap(frame):
        if (
            frame.kind != kind
            or (senders is not None and frame.sender not in senders)
            or (receivers is not None and frame.receiver not in receivers)
        ):
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 30)
        changed = change(envelope.message, frame)
        if changed is None:
            return []
        many = changed if isinstance(changed, list) else [changed]
        return [replace(frame, data=encode(Envelope(envelope.session, frame.sender, frame.receiver, m))) for m in many]

    return tap


def flipped(data, at=0):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
