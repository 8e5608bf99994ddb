"""Transcripts of the two-server protocol tell each party what is disclosed to it: simulators and distinguishers."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.two_servers import asking as two_server_asking
from cloister.protocol.two_servers.messages import KeyShare, Opening

from .distinguisher import CLASSIFIERS, distinguish, of_words
from .two_server_session import Play
from .two_server_transcripts import (
    first_view,
    first_words,
    ideal_of,
    play_round,
    second_view,
    second_words,
    simulate_first,
    simulate_second,
    total_of,
)

pytestmark = pytest.mark.sweeps

VIEWS = 320
LENGTH = 8
WEIGHTS = {1: 1, 3: -1}
QUICK = ("logistic", "trees")
SIZES = pytest.mark.parametrize("width", [4, 8], ids=["projected", "whole"])


def updates_of(kind="skewed"):
    rows = {
        "zero": np.zeros((2, LENGTH)),
        "skewed": np.array([[9, 1, 0, 0, 0, 0, 0, -1], [-0.25] * LENGTH]),
        "large": np.array([[5, -5] * 4, [5] * LENGTH]),
        "other": np.array([[1, 9, 0, 0, 0, 0, 0, -1], [-0.25] * LENGTH]),
    }[kind]
    return {i: row.astype(np.float32) for i, row in zip(WEIGHTS, rows, strict=True)}


def play_of(kind, width, seed=0):
    return Play(2, length=LENGTH, width=width, floor=2, seed=seed, updates=updates_of(kind), record=True)


def first_real(kind, width, views=VIEWS, seed=0):
    play = play_of(kind, width, seed)
    return np.stack([first_words(first_view(play, play_round(play, t, WEIGHTS)), [*WEIGHTS.values()]) for t in range(views)])


def second_real(kind, width, views=VIEWS, seed=0):
    play = play_of(kind, width, seed)
    return np.stack([second_words(second_view(play, play_round(play, t, WEIGHTS))) for t in range(views)])


def first_simulated(kind, width, views=VIEWS, total_of_kind=None):
    play, other = play_of(kind, width), play_of(total_of_kind or kind, width)
    rng, weights = np.random.default_rng(1), [*WEIGHTS.values()]
    total = total_of(other, WEIGHTS)
    found = [simulate_first(play.terms, ideal_of(play), total, weights, rng) for _ in range(views)]
    return np.stack([first_words(view, weights) for view in found])


def second_simulated(width, views=VIEWS):
    terms, rng = play_of("zero", width).terms, np.random.default_rng(2)
    return np.stack([second_words(simulate_second(terms, 2, rng)) for _ in range(views)])


def verdict(real, simulated, classifiers=QUICK):
    return distinguish(of_words(real, 64), of_words(simulated, 64), classifiers=classifiers)


# --- the simulators -----------------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("kind", ["skewed", pytest.param("large", marks=pytest.mark.slow)])
@pytest.mark.long
def test_the_first_server_sees_the_gram_matrix_and_the_sum_alone(kind, width):
    found = verdict(first_real(kind, width), first_simulated(kind, width))
    assert found.blind, found


@SIZES
@pytest.mark.parametrize("kind", [pytest.param("zero", marks=pytest.mark.slow), "large"])
@pytest.mark.long
def test_the_second_server_sees_nothing(kind, width):
    found = verdict(second_real(kind, width), second_simulated(width))
    assert found.blind, found


def test_the_dealer_is_sent_the_same_bytes_whatever_the_updates_are():
    rounds = [play_round(play_of(kind, 4), 0, WEIGHTS) for kind in ("zero", "large")]
    assert rounds[0].raw[DEALER] == rounds[1].raw[DEALER] != b""


def test_with_the_same_secrets_only_the_opening_to_the_second_server_depends_on_the_updates():
    one, other = (play_round(play_of(kind, 4), 0, WEIGHTS) for kind in ("zero", "large"))
    differ = [a for a, b in zip(one.to[SECOND_SERVER], other.to[SECOND_SERVER], strict=True) if a != b]
    assert [type(message) for _, _, message in differ] == [Opening]
    a, b = (seen.one(SECOND_SERVER, Opening)[1] for seen in (one, other))
    assert replace(a, difference=b.difference) == b
    assert one.by_client(SECOND_SERVER, KeyShare) == other.by_client(SECOND_SERVER, KeyShare)


@pytest.mark.slow
@SIZES
def test_many_transcripts(width):
    found = verdict(first_real("skewed", width, 6000), first_simulated("skewed", width, 6000), tuple(CLASSIFIERS))
    assert found.blind, found
    found = verdict(second_real("large", width, 6000), second_simulated(width, 6000), tuple(CLASSIFIERS))
    assert found.blind, found


# --- what is disclosed is seen, and what is wrong is told apart ---------------------------------------------------------------


@pytest.mark.long
def test_the_first_server_does_see_the_gram_matrix_and_the_sum():
    """`other` swaps two coordinates of one update: another Gram matrix, and another sum."""
    real = first_real("skewed", 8)
    assert verdict(real, first_simulated("zero", 8, total_of_kind="skewed")).told_apart
    assert verdict(real, first_simulated("skewed", 8, total_of_kind="other")).told_apart


class Repeating:
    """Entropy that gives the same secret for every session and question, where its purpose begins like this."""

    def __init__(self, seed, beginning):
        self.source, self.beginning = SimulatedEntropy(seed), beginning

    def secret(self, purpose, length):
        return self.source.secret(self.beginning if purpose.startswith(self.beginning) else purpose, length)


@pytest.mark.slow
@pytest.mark.parametrize("beginning", ["two servers 1", "two servers triple"], ids=["a client's key", "the dealer's"])
def test_secrets_that_are_used_again_are_told_apart(beginning):
    play = play_of("large", 8)
    entropy = Repeating(0, beginning)
    for party in play.parties.values():
        if hasattr(party.state, "entropy"):
            party.state = replace(party.state, entropy=entropy)
    seen = [play_round(play, t, WEIGHTS) for t in range(VIEWS)]
    first = np.stack([first_words(first_view(play, s), [*WEIGHTS.values()]) for s in seen])
    second = np.stack([second_words(second_view(play, s)) for s in seen])
    assert verdict(first, first_simulated("large", 8)).told_apart
    assert verdict(second, second_simulated(8)).told_apart


@pytest.mark.long
def test_a_triple_without_a_mask_is_told_apart_at_the_second_server(monkeypatch):
    """A first server that sends its projected shares as they are: with its own, the second server has the updates."""
    monkeypatch.setattr(two_server_asking, "difference", lambda rows, triple: rows)
    play = play_of("large", 8)
    real = np.stack([second_words(second_view(play, play_round(play, t, WEIGHTS))) for t in range(VIEWS)])
    assert verdict(real, second_simulated(8)).told_apart


def test_a_party_reads_only_what_was_sent_to_it():
    seen = play_round(play_of("large", 4), 0, WEIGHTS)
    kinds = {p: {type(m).__name__ for _, _, m in seen.to[p]} for p in (SERVER, SECOND_SERVER, DEALER)}
    assert kinds[SERVER] == {"ExplicitShare", "Agreed", "Coin", "ExplicitTriple", "GramAnswer", "SumAnswer"}
    assert kinds[SECOND_SERVER] == {"Task", "KeyShare", "Held", "GramQuestion", "KeyedTriple", "Opening", "SumQuestion"}
    assert kinds[DEALER] == {"TripleRequest"}
