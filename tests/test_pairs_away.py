"""Clients in processes of their own are compared as in one process, and one that was killed goes on from its journal."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy, OsEntropy
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.messages import decode
from cloister.protocol.pairs.choices import PerClient, PerPair, PerRound
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.question import Comparing, PairQuestion
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.work.away import Processes

from .test_away import INITIAL, MEMBERS, RUN, Killer, back, nobody, update_of, workers

ROWS, WEIGHTS = 64, 12
NOISE = Noise(clip=8.0, multiplier=0.05, reference_multiplier=0.05, budget=1e6, delta=1e-6)
PAIRS = tuple((a, b) for a in MEMBERS for b in MEMBERS if a < b)
NOISY = PerPair(projection="orthonormal", embedding="public", noise=NOISE, answers=1)
ONE = PerClient(noise=NOISE)


@dataclass(frozen=True)
class Gap:
    """The distance between the means of two clouds."""

    span: float = 100.0
    samples: int = 1

    def moved(self, rows):
        return self.span / rows

    def __call__(self, source, target):
        return float(np.linalg.norm(source.mean(0, dtype=np.float64) - target.mean(0, dtype=np.float64)))


@dataclass(frozen=True)
class Sized:
    """Embedders of these clients' data, and of nobody else's: a model moves every example. Two groups, far apart."""

    only: tuple[int, ...]
    d: int = WEIGHTS
    inputs: int = WEIGHTS
    rows: int = ROWS
    by_position: bool = True

    def weights_of(self, model):
        return model[:WEIGHTS]

    def examples(self, client, part):
        assert client in self.only
        rng = np.random.default_rng([client, len(part)])
        return (np.eye(WEIGHTS)[client % 2] * 6 + rng.integers(0, 2, (ROWS, WEIGHTS)) / 8).astype(np.float32)

    def embed(self, client, part, weights):
        return self.embed_examples(self.examples(client, part), weights)

    def embed_examples(self, examples, weights):
        return examples if weights is None else examples + weights

    def sent(self, client, occasion, honest):
        assert client in self.only
        return honest


def setup_of(client, choice, entropy=OsEntropy):
    """What a client's process begins with: it knows what it will be asked."""
    work, embedders = partial(workers, (client,)), Sized((client,))
    return Setup(RUN, INITIAL, MEMBERS, work, entropy(), embedders=embedders, comparing=Comparing(choice, Gap()))


def opened(protection, choice, processes=None, tap=None):
    """A view whose clients are here, or each in a process of its own; nothing of their data is in this one then."""
    here = Setup(RUN, INITIAL, MEMBERS, partial(workers, MEMBERS), OsEntropy(), tap, embedders=Sized(MEMBERS))
    if processes is None:
        return protection.open(here)
    known = Comparing(choice, Gap())
    return protection.open(replace(here, workers=nobody, embedders=Sized(()), comparing=known, hosts=processes))


def ask(view, choice, round=0, pairs=PAIRS, seen=None):
    """Have clients train and be compared; the answers, and in `seen` what the server saw of each direction."""

    def judge(directions):
        accepts = {}
        for of in directions:
            if seen is not None:
                seen[of.client, of.other] = of
            accepts[of.client, of.other] = Gap()(of.source, of.target) - of.reference < 2
        return accepts

    work = {"root": Assignment(Model("init"), MEMBERS, MEMBERS)}
    updates = view.train(round, work)
    return view.pairs(round, work, updates, PairQuestion(pairs, choice, Gap(), judge))


def releases(view):
    """What clients' ledgers say that they released."""
    return {i: [of.covers for of in ledger.releases] for (i, _), ledger in view.record.ledgers.items()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("protection", "choice"),
    [
        (Plain(), PerPair(projection="none", ratio=1.0)),
        (Masked(floor=2), ONE),
        (Masked(floor=2), PerRound()),
        pytest.param(Masked(floor=2), PerPair(projection="orthonormal"), marks=pytest.mark.slow),
        pytest.param(Plain(), NOISY, marks=pytest.mark.slow),
    ],
    ids=["exchanged", "once for all", "by round", "projected", "noisy"],
)
def test_comparisons_are_those_of_one_process(protection, choice):
    processes = Processes(partial(setup_of, choice=choice), MEMBERS)
    try:
        here, there = opened(protection, choice), opened(protection, choice, processes)
        saw = {}
        expected, found = ask(here, choice, round=1), ask(there, choice, round=1, seen=saw)
        assert found == expected
        assert found.accepts == {(a, b): a % 2 == b % 2 for x, y in PAIRS for a, b in ((x, y), (y, x))}
        assert not there.record.faults
        assert there.record.log == here.record.log
        assert there.record.traffic.messages == here.record.traffic.messages
        assert releases(there) == releases(here)
        assert bool(releases(there)) == (getattr(choice, "noise", None) is not None)
        assert len(saw) == 2 * len(PAIRS)
        if choice.projection == "none":
            for (i, j), of in saw.items():
                own = (INITIAL + update_of(i, 1))[:WEIGHTS]
                np.testing.assert_array_equal(of.source, Sized(MEMBERS).embed(i, "train", own))
                np.testing.assert_array_equal(of.target, Sized(MEMBERS).embed(j, "train", own))
    finally:
        processes.stop()


def test_clients_elsewhere_know_beforehand_what_they_will_be_asked():
    processes = Processes(partial(setup_of, choice=NOISY), ())
    setup = Setup(RUN, INITIAL, MEMBERS, nobody, OsEntropy(), embedders=Sized(()), hosts=processes)
    with pytest.raises(Refused, match="comparing="):
        Plain().open(setup).pairs(0, {}, {}, PairQuestion((), NOISY, Gap(), dict))


SLOW = (pytest.param(choice, marks=pytest.mark.slow) for choice in (ONE, PerRound()))


@pytest.mark.long
@pytest.mark.parametrize("choice", [NOISY, *SLOW], ids=["a pair", "once for all", "by round"])
def test_a_client_that_is_killed_in_a_comparison_answers_no_more_than_it_would(choice, tmp_path):
    """Its answer left it, and nobody heard it: it is counted, and charged once. For all, it says the same again; in another
    round, where it answers for one, something else."""
    processes = Processes(partial(setup_of, choice=choice, entropy=KeptEntropy), MEMBERS, tmp_path)
    killer, answers = Killer(processes, 3, "PairClouds"), []

    def tap(frame):
        if frame.kind == "PairClouds" and frame.sender == 3:
            answers.append(decode(frame.data, 3, 1 << 20))
        if frame.kind == "PairKey" and frame.receiver == 0 and not killer.killed:
            return []  # so that the other of the pair did not answer, and would
        return killer(frame)

    try:
        view = opened(Plain(), choice, processes, tap)
        lost = (0, 3)
        assert ask(view, choice, pairs=(lost,)).accepts == {}
        back(killer)
        view.harness.retire([Model("init")], [])
        charged = releases(view).get(3)
        again = ask(view, choice, round=1, pairs=(lost, (3, 5)))
        assert (3, 5) in again.accepts
        words = {fault.reason for fault in view.record.faults}
        if choice is NOISY:
            assert (3, 0) not in again.accepts
            assert words == {"an offer for a pair already answered"}
            assert len({answer.session for answer in answers}) == len(answers) == 2  # to 0, and to 5
            assert releases(view)[3] == charged + [of.replace("client 0 in round 0", "client 5 in round 1") for of in charged]
        else:
            assert (3, 0) in again.accepts
            assert not words
            first, second = answers
            assert (first.message == second.message) == (choice is ONE)
            assert releases(view).get(3) == charged
        assert bool(charged) == hasattr(choice, "noise")
    finally:
        processes.stop()
