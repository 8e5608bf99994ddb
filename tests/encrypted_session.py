"""Encrypted sums and scores among a few clients, for the tests: keys made once, networks that lose or change frames."""

from dataclasses import fields, is_dataclass, replace

import numpy as np

from cloister.crypto.ckks import SUMS
from cloister.crypto.ckks_secret import SecretContext
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Party, Worked
from cloister.protocol.encrypted import keys as encrypted_keys
from cloister.protocol.encrypted import scores as encrypted_scores
from cloister.protocol.encrypted import sum as encrypted_sum
from cloister.protocol.encrypted.client import client_step
from cloister.protocol.encrypted.client_phases import SCORES, SKETCH, SUM, EncryptionPolicy, IdleEncryptor
from cloister.protocol.encrypted.keys import KeyName
from cloister.protocol.encrypted.scaling import Weighting
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.work.sketch_keys import SketchSecret, SketchTerms

RUN, SEED, D, K = bytes(range(16)), bytes(range(32)), 40, 16
LIMIT = 1 << 27
_GENERATE, _MADE = SecretContext.generate, {}


def made_once(parameters=SUMS):
    """In place of SecretContext.generate: one key per set of parameters for all tests, because making them takes time."""
    return _MADE.setdefault(parameters, _GENERATE(parameters))


def another_key(parameters=SUMS):
    """A fresh key."""
    return _GENERATE(parameters)


class Play:
    """Clients 1, 3, 5, ... with random updates, and everything that the server ever held."""

    def __init__(self, n, tap=None, *, keys="session", cohort=2, digits=4, seed=0, vectors=None):
        self.roster = tuple(range(1, 2 * n, 2))
        rng = np.random.default_rng(seed)
        self.vectors = vectors or {i: rng.standard_normal(D).astype(np.float32) for i in self.roster}
        self.samples = {i: int(rng.integers(1, 500)) for i in self.roster}
        self.sketch = SketchSecret(SEED, SketchTerms(keys, RUN, D, K))
        policy = EncryptionPolicy(cohort, cohort, keys, digits, samples=True)
        self.parties = {i: Party(i, IdleEncryptor(i, RUN, policy, SEED, self.sketch, D), client_step) for i in self.roster}
        self.network = InProcess(tap, kinds=MESSAGES, max_bytes=LIMIT, record=True)
        self.learned = {i: [] for i in self.roster}
        self.held = []

    def session(self, protocol, name="root", round=0, threshold=1, roster=None):
        return Session(protocol, RUN, round, name, roster or self.roster, threshold)

    def run(self, session, state, step, opening):
        def recorded(state, event):
            after, effects = step(state, event)
            self.held.append(after)
            return after, effects

        def perform(tasks):
            return ((i, Worked(self.vectors[i], self.samples[i])) for i, _ in tasks)

        server = Party(SERVER, state, recorded)
        effects = ((SERVER, effect) for effect in opening)
        learned = lambda client, effect: self.learned[client].append(np.frombuffer(effect.vector, "<f4"))  # noqa: E731
        self.network.run(self.parties, {session.digest: server}, effects, perform, learned)
        return server.state

    def key(self, purpose, name="root", round=0, roster=None):
        named = KeyName(RUN, purpose, round, name)
        asking = encrypted_keys.AskingKey(named, named.session(roster or self.roster))
        return self.run(asking.session, asking, encrypted_keys.server_step, encrypted_keys.ask(asking))

    def plan(self, key, weights=None, *, times_samples=False, threshold=2, members=None, round=0, name="root"):
        session = self.session(SUM, name, round, threshold)
        weighting = Weighting(weights or dict.fromkeys(self.roster, 1.0), times_samples)
        return encrypted_sum.SumPlan(session, key, weighting, D, members or self.roster)

    def sum(self, *args, **options):
        """The end of a sum under a new key; the end of the key's session if nobody made one."""
        keyed = self.key("sums", options.get("name", "root"), options.get("round", 0))
        if isinstance(keyed, encrypted_keys.Shortfall):
            return keyed
        plan = self.plan(keyed.key, *args, **options)
        return self.run(plan.session, encrypted_sum.AddingSummands(plan), encrypted_sum.server_step, encrypted_sum.invite(plan))

    def collect(self, key, name="root", round=0):
        state = encrypted_scores.CollectingCiphertexts(self.session(SKETCH, name, round), key, K)
        return self.run(state.session, state, encrypted_scores.server_step, encrypted_scores.invite(state))

    def compare(self, key, rows, columns=(), name="root", round=0, digits=3, roster=None):
        session = self.session(SCORES, name, round, roster=roster)
        state = encrypted_scores.comparison(session, key, list(rows), list(columns), digits, bytes(32))
        return self.run(state.session, state, encrypted_scores.server_step, encrypted_scores.ask(state))

    def blamed(self):
        return {fault.blame for fault in self.network.faults}

    def reasons(self):
        return " | ".join(fault.reason for fault in self.network.faults)


def losing(fates):
    """A network on which client i's messages of the kind fates[i], and all that it sends after, are lost."""
    silent = set()

    def tap(frame):
        if fates.get(frame.sender) == frame.kind:
            silent.add(frame.sender)
        return [] if frame.sender in silent else [frame]

    return tap


def changing(kind, change):
    """A network that applies `change` to the messages of one kind; change gives a message, several, or None to drop it."""

    def tap(frame):
        if frame.kind != kind:
            return [frame]
        envelope = decode(frame.data, frame.sender, LIMIT)
        changed = change(envelope.message, frame)
        many = [] if changed is None else changed if isinstance(changed, list) else [changed]
        return [replace(frame, data=encode(Envelope(envelope.session, frame.sender, frame.receiver, m))) for m in many]

    return tap


def reachable(*things):
    """Every object reachable from these, through dataclasses, containers and attributes."""
    seen, todo = set(), list(things)
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            todo += one
        elif is_dataclass(one) and not isinstance(one, type):
            todo += [getattr(one, f.name) for f in fields(one)]
        else:
            todo += list(getattr(one, "__dict__", {}).values())


def secrets_in(*things):
    """Secret keys, and contexts of the library that hold one, reachable from these; ciphertexts are linked to a context."""
    found = []
    for one in reachable(*things):
        if isinstance(one, SecretContext) or _holds_secret(one):
            found.append(one)
        elif type(one).__module__.startswith("tenseal") and callable(getattr(one, "context", None)):
            found += [one] if _holds_secret(one.context()) else []
    return found


def _holds_secret(one):
    return type(one).__module__.startswith("tenseal") and hasattr(one, "has_secret_key") and one.has_secret_key()
