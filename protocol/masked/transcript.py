"""What a client signs, as one chain from the charter on: no step of it contradicts an earlier one or exceeds its account.

Spec: specs/masked_sum.md, section Transcript. A step is a sum that the client gives an input to, with all of its terms, or the
survivor set that it signs for that sum. `head` is SHA-256 of the head before and the step, the first the charter's digest. What
is needed to judge the next step is kept for one round (given.py), so a client stores an entry of bounded size. Whoever keeps all
entries that it stored has its log, which anybody can check later (`verify_transcript`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import cbor2

from ..core.errors import ProtocolError
from ..core.session import MAX_ROSTER, SERVER
from ..parts.charter import Charter
from ..parts.gate import Rules
from ..parts.leverage import Row, span
from ..wire.codec import Envelope, decode, encode, plain_in
from ..wire.messages import HEAD_BYTES
from .given import GivenUpdates
from .joined import join, joined_before, steps_before, update_of
from .messages import MESSAGES, Proposal, Survivors
from .terms import NO_UPDATE, Plan, decode_weights

KEY = "masked sum transcript"
"""What a client stores its latest entry under."""
_GAVE, _SIGNED = 0, 1
_LONGEST = HEAD_BYTES + 13 * MAX_ROSTER + 1024


@dataclass(frozen=True, slots=True)
class Transcript:
    """One client's. steps: how many it took. sums: of these, inputs that it gave, over the run. step: the latest, encoded.

    given: its account of this round. A client that restarts must have it back as it was last stored (`restored`).
    """

    charter: Charter = field(repr=False)
    me: int
    steps: int = 0
    head: bytes = b""
    sums: int = 0
    given: GivenUpdates = field(default_factory=GivenUpdates, repr=False)
    step: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", self.head or self.charter.digest)

    def at(self, round: int) -> Self:
        """At a session of this round: what was given in rounds before is forgotten, and the chain goes on."""
        return replace(self, given=self.given.at(round))

    def giving(self, plan: Plan, rules: Rules) -> GivenUpdates:
        """The account with one more sum. Raises ValueError if that sum must not be."""
        most = self.charter.sums
        if most is not None and self.sums >= most:
            raise ValueError(f"a sum more than the {most} that the charter allows a client")
        given = self.given.giving(plan, rules)
        if _exceeds(self.charter.span, given, plan, self.me):
            raise ValueError(f"more independent sums of one update than the {self.charter.span} that the charter allows")
        return given

    def gave(self, plan: Plan, rules: Rules) -> Self:
        """With one more sum, before its input is sent. Raises ValueError if that sum must not be."""
        given = self.giving(plan, rules)
        proposal = Envelope(plan.session.digest, SERVER, self.me, plan.proposal)
        return replace(self._with(_GAVE, encode(proposal)), given=given, sums=self.sums + 1)

    def signed(self, plan: Plan, alive: tuple[int, ...], rules: Rules) -> Self:
        """With this survivor set, before its signature is sent. Raises ValueError if it must not be signed."""
        given = self.given.signing(plan, alive, rules)
        return replace(self._with(_SIGNED, plan.binding, list(alive)), given=given)

    def _with(self, *step: object) -> Self:
        encoded = cbor2.dumps(step, canonical=True)
        return replace(self, steps=self.steps + 1, head=hashlib.sha256(self.head + encoded).digest(), step=encoded)

    @property
    def entry(self) -> bytes:
        """What a client stores: deterministic CBOR of [charter's digest, client, steps, head, sums, account, latest step]."""
        fields = [self.charter.digest, self.me, self.steps, self.head, self.sums, self.given.encode(), self.step]
        return cbor2.dumps(fields, canonical=True)

    @classmethod
    def decode(cls, charter: Charter, me: int, data: bytes) -> Self:
        """What this client itself stored under this charter. Raises ValueError for anything else."""
        try:
            digest, client, steps, head, sums, given, step = cbor2.loads(data)
            found = cls(charter, me, steps, head, sums, GivenUpdates.decode(given), step)
            if (digest, client, type(steps), type(sums)) == (charter.digest, me, int, int) and found.entry == data:
                return found
        except (TypeError, ValueError, cbor2.CBORDecodeError):
            pass
        raise ValueError("not the transcript that this client stored under this charter; without it it must take no part")


def restored(
    journal: Mapping[str, bytes], charter: Charter, me: int, seen: Iterable[tuple[int, bytes]] = ()
) -> tuple[dict[str, int], Transcript]:
    """What a client that restarts goes on from: the next round by name, and its transcript; from all that it stored.

    seen: steps and head, as others have kept them for the client. Raises ValueError for a journal of another charter, for one of
    which a part is older than the rest, and for one that is behind what was seen. One that is older as a whole, while nobody else
    has seen more, looks like one that is up to date: whoever keeps it must not put an old one back.
    """
    joined, transcript = joined_before(journal), Transcript(charter, me)
    if KEY in journal:
        transcript = Transcript.decode(charter, me, journal[KEY])
    latest = max(joined.values(), default=0) - 1
    between = transcript.steps - steps_before(journal)
    if not 0 <= between <= 2 or transcript.given.round > max(latest, 0):  # of each session that it joins it takes two at most
        raise ValueError("a journal of which a part is older than the rest: the client must take no part")
    if any(steps > transcript.steps or (steps == transcript.steps and head != transcript.head) for steps, head in seen):
        raise ValueError("a journal behind what others have seen of this client: it must take no part")
    return joined, transcript


def log_of(entries: Iterable[bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The steps and heads of all entries that a client stored, in order."""
    decoded = [cbor2.loads(entry) for entry in entries]
    return tuple(entry[6] for entry in decoded), tuple(entry[3] for entry in decoded)


def verify_transcript(
    charter: Charter, me: int, steps: Sequence[bytes], heads: Sequence[bytes], signed: Iterable[bytes] = ()
) -> Transcript:
    """Where a client stands after these steps, under this charter. signed: heads in its survivor signatures, which the server and
    its neighbours have.

    Raises ValueError, with its number, for the first that is not in the chain, contradicts an earlier one or exceeds the account,
    and for a head that it signed and that is not among them: the log ends early, or is another one.
    """
    if len(steps) != len(heads):
        raise ValueError(f"{len(steps)} steps have as many heads, not {len(heads)}")
    if not {*signed} <= {*heads}:
        raise ValueError(f"client {me} signed for a head that is not in this log")
    transcript, joined, plan = Transcript(charter, me), dict[str, int](), None
    for number, (step, head) in enumerate(zip(steps, heads, strict=True)):
        try:
            if len(step) > _LONGEST:
                raise ValueError("more than any step has")
            kind, *content = plain_in(step)
            if kind == _GAVE:
                plan, joined = _proposed(charter, me, content[0], joined)
                transcript = transcript.at(plan.session.round).gave(plan, charter.rules)
            elif kind == _SIGNED and plan is not None and content[0] == plan.binding:
                transcript, plan = transcript.signed(plan, Survivors(tuple(content[1])).alive, charter.rules), None
            else:
                raise ValueError("no input that was given, and no survivors of the last such sum")
            if (transcript.step, transcript.head) != (step, head):
                raise ValueError("a step that is not in the chain")
        except (TypeError, IndexError, ValueError, ProtocolError, cbor2.CBORDecodeError) as error:
            raise ValueError(f"step {number} of client {me}: {error}") from None
    return transcript


def _proposed(charter: Charter, me: int, data: bytes, joined: Mapping[str, int]) -> tuple[Plan, dict[str, int]]:
    """The plan of a step, and the next round by name after it."""
    envelope = decode(data, SERVER, _LONGEST, MESSAGES)
    proposal = envelope.message
    if not isinstance(proposal, Proposal):
        raise ValueError("an input to what is no proposal")
    plan = Plan.proposed(proposal, charter)
    name, round = plan.session.protocol, plan.session.round
    if (
        me not in plan.session.roster
        or plan.session.run != charter.run
        or not charter.enrolled.keys() >= set(plan.session.roster)
    ):
        raise ValueError("a sum of another run or of others")
    if round < max([joined.get(name, 0), *(after - 1 for after in joined.values())]):
        raise ValueError("a sum of a round gone by, or a second one of its name")
    return plan, join(joined, name, round, 0)[0]


def _exceeds(most: int, given: GivenUpdates, plan: Plan, me: int) -> bool:
    """Whether more independent sums tell of this client's updates: sums that it counts in, and sums of slots made of them."""
    update = plan.terms.update
    if update == NO_UPDATE:
        return False
    found = given.updates[update].rows
    of_slots = (g.rows for u, g in given.updates.items() if update_of(u, b"sums") == update or u == update_of(update, b"sums"))
    most -= sum(map(len, of_slots))
    if len(found) <= most:
        return False
    rows: list[Row] = [decode_weights(plan.session.roster, weights) for _, weights in found]
    return span([row for row in rows if row.get(me)]) > most
