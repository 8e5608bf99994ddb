"""Sums that were opened in a run, as its frames say it: whatever the code that opened them answered to whom.

A masked sum is opened where the self masks of all of its survivors follow from what clients revealed, a sum of two servers where
the second has answered, an encrypted one where members were sent it. Sums of weights, into slots and for receivers are no sums of
whole updates, or not the observer's; sums with noise are not read.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ...protocol.core.session import SECOND_SERVER
from ...protocol.encrypted.client_phases import SUM
from ...protocol.encrypted.messages import EncryptedSum, EncryptedSumRequest
from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.joined import COUNTED, kind_of
from ...protocol.masked.messages import Proposal, Survivors
from ...protocol.masked.protection import Masked
from ...protocol.masked.terms import SumTerms, decode_weights
from ...protocol.two_servers.messages import SumAnswer, SumQuestion
from ...protocol.two_servers.protection import TwoServer
from ...protocol.view.account import kind_of as work_of
from ...protocol.view.answers import COMPUTED, Owner
from .reading import messages, sessions
from .view import CorruptView, PublishedSum

WORKS = frozenset(COMPUTED)
"""First words of the names of masked sums of updates; `by` counts samples."""


def opened_rows(view: CorruptView) -> Iterator[PublishedSum]:
    """Of all sums of whole updates that the server opened, or sent to members, in order; without their means."""
    how = view.public.protection
    if isinstance(how, Masked):
        yield from _masked(view)
    elif isinstance(how, TwoServer):
        yield from _shared(view)
    elif isinstance(how, Encrypted):
        yield from _encrypted(view)


def _masked(view: CorruptView) -> Iterator[PublishedSum]:
    proposed: dict[bytes, Proposal] = {}
    alive: dict[bytes, set[int]] = {}
    for _, envelope in messages(view, Proposal, Survivors):
        if isinstance(envelope.message, Proposal):
            proposed.setdefault(envelope.session, envelope.message)
        else:
            alive.setdefault(envelope.session, set()).update(envelope.message.alive)
    works = sessions(view)
    for digest, of in alive.items():
        told, asked = view.opened.get(digest, ()), proposed.get(digest)
        if asked is None or not of <= {k.a for k in told if k.a == k.b}:
            continue
        terms, kind = SumTerms.proposed(asked), kind_of(asked.protocol)
        if (task := works.get(terms.update)) is None or not (kind in WORKS or kind == "by"):
            continue
        weights = decode_weights(asked.session.roster, terms.weights)
        row = {i: weights[i] for i in sorted(of) if weights.get(i)}
        yield PublishedSum(task.round, asked.cluster, work_of(task.work), row, kind in COUNTED, "server")


def _shared(view: CorruptView) -> Iterator[PublishedSum]:
    tasks, asked = sessions(view), dict[bytes, SumQuestion]()
    for frame, envelope in messages(view, SumQuestion, SumAnswer):
        if isinstance(envelope.message, SumQuestion):
            asked.setdefault(envelope.session, envelope.message)
            continue
        question = asked.pop(envelope.session, None) if frame.sender == SECOND_SERVER else None
        if question is not None and (task := tasks.get(question.source)) is not None:
            row = dict(zip(question.clients, map(float, question.weights), strict=True))
            yield PublishedSum(task.round, task.cluster, work_of(task.work), row, False, "server")


def _encrypted(view: CorruptView) -> Iterator[PublishedSum]:
    tasks = sessions(view)
    works = {e.session: e.message.work for _, e in messages(view, EncryptedSumRequest)}
    said, receivers = dict[bytes, EncryptedSum](), defaultdict[bytes, set[int]](set)
    for frame, envelope in messages(view, EncryptedSum):
        said.setdefault(envelope.session, envelope.message)
        receivers[envelope.session].add(frame.receiver)
    for digest, of in said.items():
        if (task := tasks.get(works.get(digest, b""))) is None or of.protocol.partition("/")[0] != SUM:
            continue
        weights = dict(zip(of.roster, np.frombuffer(of.weights, ">f8").tolist(), strict=True))
        row = {i: weights[i] for i in of.alive if weights.get(i)}
        to: Owner | int = "clients" if len(receivers[digest]) > 1 else min(receivers[digest])
        yield PublishedSum(task.round, of.cluster, work_of(task.work), row, bool(of.times_samples), to)
