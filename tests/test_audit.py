"""What a corrupt party saw, what attacks make of it, and what is said of claims."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.auditing.audited import audited
from cloister.auditing.first_words import headline
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.threat_models.audit.claim import Claim, Victim, Worst, judged
from cloister.threat_models.audit.dealt import dealt_rows
from cloister.threat_models.audit.estimates import estimates
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.experiments import observers_of
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, named, server_and
from cloister.threat_models.audit.reading import uploads
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.scoring import Leakage, auc, leakage, proportion, remedy, tpr_at
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.claims import CLAIMS

CLIENTS = 8
scenario = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=CLIENTS, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=1, batch=20, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False),
    protection=Masked(),
    rounds=4,
)
when_ripe = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="when ripe", remember=False)


def played(protection, algorithm=None, seed=0):
    recorder = Recorder(replace(scenario, protection=protection, algorithm=algorithm or scenario.algorithm, seed=seed), None)
    assert list(recorder.rounds()) == [1, 2, 3, 4]
    return recorder


def recovered(recorder, observer, prior=None):
    """By instance, how much of what sets an update apart from the sums' mean the observer's estimate has."""
    alone, found = estimates(recorder.sums_alone), estimates(recorder.seen_by(observer), prior)
    share = {}
    for key, x in recorder.updates.items():
        if key in found and key in alone:
            apart = np.sum((x - alone[key].vector) ** 2)
            share[key] = 1 - np.sum((x - found[key].vector) ** 2) / apart
    return share


# --- recording ------------------------------------------------------------------------------------------------------------------


def test_an_observer_is_some_parties_or_the_network():
    assert server_and(3, 1).name == "server and clients 1, 3"
    assert Observer(frozenset({SERVER, SECOND_SERVER})).name == "server and second server"
    for bad in ({}, {"servers": frozenset({7})}, {"clients": frozenset({-1})}, {"network": True, "clients": frozenset({1})}):
        with pytest.raises(ValueError, match=r"observer|servers are"):
            Observer(**bad)


@pytest.mark.long
@pytest.mark.trains
def test_a_view_has_what_its_parties_sent_and_received_and_nothing_else():
    recorder = played(Masked())
    whole = len(recorder.tap.frames)
    for observer in (SERVER_ALONE, server_and(2), Observer(clients=frozenset({0, 1}))):
        view = recorder.seen_by(observer)
        assert 0 < len(view.frames) <= whole
        assert all({f.sender, f.receiver} & observer.parties for f in view.frames)
        assert set(view.held) == observer.clients
    alone = recorder.seen_by(SERVER_ALONE)
    assert alone.held == {}
    assert len(alone.sums) == 4
    assert len(alone.compared) == 4
    assert all(s.mean is not None for s in alone.sums)
    two = recorder.seen_by(Observer(clients=frozenset({0, 1})))
    assert len(two.sums) == 4  # that their next starts show
    assert all(s.mean is not None and s.energy is None for s in two.sums)
    assert two.compared == []
    assert two.models == {}
    assert all(len(held.seed) == 32 and len(held.updates) == 4 for held in two.held.values())
    network = recorder.seen_by(NETWORK)
    assert len(network.frames) == whole
    assert not any(any(f.data) for f in network.frames)
    assert sum(len(f.data) for f in network.frames) == sum(len(f.data) for f in recorder.tap.frames)
    with pytest.raises(ValueError, match="no clients of the run"):
        recorder.seen_by(server_and(99))


@pytest.mark.trains
def test_recording_changes_nothing():
    from cloister.fl.runs.simulation import Simulation

    simulation = Simulation(replace(scenario, protection=Plain()), None)
    for _ in range(4):
        simulation.step()
    recorder = played(Plain())
    ours, theirs = recorder.simulation.vectors(), simulation.vectors()
    assert all(np.array_equal(ours[i], theirs[i]) for i in theirs)


@pytest.mark.trains
def test_the_attacker_s_examples_and_the_scorer_s_are_apart():
    recorder = played(Plain())
    mine, outside = recorder.public.auxiliary, recorder.truth.outside
    tests = {id(c.test): c.test for c in recorder.simulation.population.clients.values()}
    assert len(mine) + len(outside) == sum(map(len, tests.values()))
    rows_ = {tuple(x) for x in mine.x.flatten(1).tolist()}
    assert len(rows_ & {tuple(x) for x in outside.x.flatten(1).tolist()}) <= 2  # equal digits there may be


# --- estimates ------------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_in_clear_the_server_has_every_update():
    recorder = played(Plain())
    assert min(recovered(recorder, SERVER_ALONE).values()) > 1 - 1e-9
    found = uploads(recorder.seen_by(SERVER_ALONE))
    assert all(np.array_equal(found[key].vector, x) for key, x in recorder.updates.items())


@pytest.mark.trains
def test_the_server_alone_has_nothing_but_sums():
    share = recovered(played(Masked(), when_ripe), SERVER_ALONE)
    assert len(share) == 4 * CLIENTS
    assert max(map(abs, share.values())) < 1e-6


@pytest.mark.trains
def test_of_inner_products_two_servers_tell_the_first_each_update_along_the_sums():
    """As much as the span meter of the same run says; before, the audit read nothing out of them."""
    recorder = played(TwoServer())
    share = recovered(recorder, SERVER_ALONE)
    assert len(share) == 4 * CLIENTS
    assert min(share.values()) > -0.01
    assert 0.001 < np.mean([*share.values()]) < 0.5


@pytest.mark.trains
def test_under_a_permutation_one_client_is_enough():
    recorder = played(Permuted())
    assert estimates(recorder.seen_by(SERVER_ALONE)) == {}
    share = recovered(recorder, server_and(0))
    assert len(share) == 4 * (CLIENTS - 1)
    assert min(share.values()) > 1 - 1e-6


@pytest.mark.long
@pytest.mark.trains
def test_sketches_about_the_origin_tell_the_server_something_of_every_update():
    """One known pair a session, as the report of such a run says; and all of the run's under one key, the default once."""
    session = recovered(played(Masked(sketch=256)), SERVER_ALONE)
    run = recovered(played(Masked(keys="run", sketch=256)), SERVER_ALONE)
    assert np.mean([*run.values()]) > 1.5 * np.mean([*session.values()]) > 0
    assert max(session.values()) > 0.01


@pytest.mark.long
@pytest.mark.trains
def test_a_client_s_seed_opens_measurements_and_a_prior_reads_more_out_of_them():
    recorder = played(Masked(sketch=64))
    own = [x for (_, _, i), x in recorder.updates.items() if i < CLIENTS // 2]
    prior = np.array(own, np.float64) - np.mean(own, axis=0)
    without = recovered(recorder, server_and(0))
    with_prior = recovered(recorder, server_and(0), prior)
    assert np.mean([*without.values()]) > 0.01
    assert np.mean([*with_prior.values()]) > np.mean([*without.values()])


# --- scores ---------------------------------------------------------------------------------------------------------------------


def test_known_scores():
    assert auc(np.array([2.0, 3]), np.array([0.0, 1])).value == 1
    assert auc(np.array([1.0, 1]), np.array([1.0, 1])).value == 0.5
    assert proportion(0, 10).low == 0
    assert proportion(10, 10).high == 1
    assert proportion(5, 10).low == pytest.approx(0.187, abs=1e-3)  # Clopper and Pearson's table
    others = np.arange(100.0)
    assert tpr_at(0.01, np.array([98.5, 99.5, 50.0, 99.0]), others).value == 0.75
    assert tpr_at(0.01, np.array([99.5]), others[1:]) is None, "of 99 a guess finds more than 1 %"


def test_leakage_is_zero_at_the_sums_and_one_at_everything():
    rng = np.random.default_rng(0)
    alone, plain = rng.uniform(0, 0.3, 40), rng.uniform(0.6, 1.0, 40)
    for here, value in ((alone, 0.0), (plain, 1.0), ((alone + plain) / 2, 0.5)):
        found = leakage(here, alone, plain, np.random.default_rng(1))
        assert found.value == pytest.approx(value)
        assert found.low <= found.value <= found.high
        assert found.valid
    assert not leakage(alone, alone, alone + 0.1, np.random.default_rng(1)).valid
    assert not leakage(alone, plain, alone, np.random.default_rng(1)).valid  # an attack that is worse with everything


def test_what_victims_compared_with_each_other_show_in_clear_by_chance_says_nothing():
    """A property of three clients out of five, and one of them told from both others on the other side."""
    plain, moves = np.array([1.0, 0, 0.5, 0.5, 0]), np.array([5.0, -3, 0.5, 0.5, -1])
    found = leakage(plain, plain * 0, plain, np.random.default_rng(1), moves=[moves, moves * 0, moves])
    assert not found.valid
    assert "5 victims may show by chance: take more than 1 seed" in remedy(found)
    assert leakage(plain, plain * 0, plain, np.random.default_rng(1), moves=[plain, plain * 0, plain]).valid
    assert leakage(plain, plain * 0, np.array([1.0, 0, 0, 0, 0]), np.random.default_rng(1)).valid  # of one alone, who is exposed


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_the_upper_bound_is_above_the_value(seed, share):
    rng = np.random.default_rng(seed)
    alone, plain = rng.uniform(0, 0.4, 12), rng.uniform(0.6, 1.0, 12)
    here = alone + share * (plain - alone) + rng.normal(0, 0.05, 12)
    found = leakage(here, alone, plain, rng)
    assert found.low <= found.value + 1e-9
    assert found.upper >= found.value - 1e-9
    assert found.upper <= found.high + 1e-9


@pytest.mark.long
def test_nineteen_of_twenty_upper_bounds_hold():
    """Of victims drawn anew: the leakage of all victims is above the bound in about one of twenty."""
    rng, misses, tries = np.random.default_rng(5), 0, 300
    for _ in range(tries):
        alone, plain = rng.uniform(0, 0.3, 30), rng.uniform(0.7, 1.0, 30)
        here = alone + rng.choice([0.0, 0.4], 30) * (plain - alone)
        misses += leakage(here, alone, plain, rng).upper < 0.2
    assert misses / tries < 0.12


# --- claims ---------------------------------------------------------------------------------------------------------------------

claim = Claim(
    id="small.updates",
    statement="nothing of an update but its cluster's mean",
    whose="Cloister",
    applies=lambda protection, algorithm: isinstance(protection, Masked),
    adversary=lambda o: o == SERVER_ALONE,
    side_information="nothing",
    experiment="updates",
    bound=0.1,
)
nothing = Leakage(0.1, 0.1, 0.9, 0.0, 0.0, 0.02, 0.01, 24, 0, True)


def test_verdicts():
    assert judged(claim, nothing).verdict == "not refuted"
    assert judged(claim, replace(nothing, low=0.15, value=0.2, high=0.3, upper=0.29)).verdict == "refuted"
    assert judged(claim, replace(nothing, low=0.05, value=0.12, high=0.3, upper=0.25, needed=60)).verdict == "inconclusive"
    assert "60 victims" in judged(claim, replace(nothing, low=0.05, value=0.12, upper=0.25, needed=60)).witness
    assert judged(claim, nothing).witness == "at most 0.010 was found, at 95 % one-sided, where at most 0.10 is claimed"
    assert judged(claim, None).verdict == "not covered"


def found_of(*here, clients=48):
    """A leakage of so many victims, of whom these are found as much of as given and of the others nothing."""
    values = np.zeros(clients)
    values[: len(here)] = here
    return leakage(values, np.zeros(clients), np.ones(clients), np.random.default_rng(0), claim.bound)


@pytest.mark.parametrize("clients", [1, 2, 6, 12, 28])
def test_so_few_victims_show_nothing_however_equal_they_are(clients):
    found = found_of(clients=clients)
    assert judged(claim, found).verdict == "inconclusive"
    assert found.upper == pytest.approx(1 - 0.05 ** (1 / clients))
    assert judged(claim, found_of(clients=found.needed)).verdict == "not refuted"


def test_a_client_that_is_exposed_refutes_a_claim_of_every_client():
    victims = [Victim(i, seed) for seed in (3, 4) for i in range(7, 31)]
    worst = Worst(victims[0], 1.0, 0.25, "sums alone", "share of it")
    said = judged(claim, found_of(1.0), "", worst, victims)
    assert said.verdict == "refuted"
    assert "1 of 48 victims exposed (client 7 of seed 3)" in said.witness
    assert "worst off: client 7 of seed 3, 1.00 where sums alone gives 0.25 (share of it)" in said.witness
    assert judged(claim, found_of(0.3)).verdict == "not refuted"


def test_where_a_claim_has_another_anchor_than_its_row_both_figures_stand_beside():
    worst = Worst(Victim(7, 3), 0.1, 0.1, "sums less their own part", "share of it", "0.08 beyond sums alone")
    said = judged(claim, replace(nothing, upper=0.127), "", worst).witness
    assert said.startswith("0.000 was found beyond sums less their own part (0.08 beyond sums alone), which at 95 %")


def test_what_sums_tell_by_chance_is_not_an_exposed_client():
    noise = np.random.default_rng(1).normal(0, 0.2, 64)
    found = leakage(np.abs(noise), np.abs(noise[::-1]), np.full(64, 0.8), np.random.default_rng(0), claim.bound)
    assert found.exposed == ()


@pytest.mark.parametrize("share", [0.12, 0.2])
@pytest.mark.parametrize("clients", [2, 6, 12, 24, 48])
@pytest.mark.long
def test_where_more_than_the_bound_is_found_of_some_it_is_hardly_ever_missed(clients, share):
    rng = np.random.default_rng(clients)
    ones, zeros = np.ones(clients), np.zeros(clients)
    drawn = [leakage((rng.random(clients) < share) * 1.0, zeros, ones, rng, claim.bound) for _ in range(100)]
    assert np.mean([judged(claim, found).verdict == "not refuted" for found in drawn]) < 0.05


def test_numbers_that_are_none_are_inconclusive():
    for wrong in (np.nan, np.inf):
        found = leakage(np.full(40, wrong), np.zeros(40), np.ones(40), np.random.default_rng(0), claim.bound)
        assert judged(claim, found).verdict == "inconclusive"


def test_where_the_attack_fails_in_clear_nothing_is_shown():
    assert judged(claim, replace(nothing, plain=0.15, valid=False)).verdict == "inconclusive"
    assert judged(claim, replace(nothing, low=0.9, value=1.0, high=1.1, valid=False)).verdict == "inconclusive"


@pytest.mark.long
@pytest.mark.trains
def test_an_audit_refutes_what_is_false_and_not_what_is_true():
    everywhere = replace(claim, applies=lambda protection, algorithm: True)

    def verdict(protection, observer, about, seeds=(0,)):
        played_ = [s for s in stages(replace(scenario, protection=protection), seeds, None) if isinstance(s, Stage)]
        (row,) = rows(played_, [observer], [UpdateRecovery()], [about], QUICK)
        (found,) = row.claims
        return found.verdict

    assert verdict(Masked(), SERVER_ALONE, claim) == "inconclusive"  # too few
    assert verdict(Masked(), SERVER_ALONE, claim, range(4)) == "not refuted"
    assert verdict(Plain(), SERVER_ALONE, everywhere) == "refuted"
    assert verdict(Permuted(), server_and(0), replace(everywhere, adversary=lambda o: True)) == "refuted"


@pytest.mark.trains
@pytest.mark.slow
def test_encrypted_is_recorded_too():
    recorder = played(Encrypted(), algorithm=when_ripe)
    view = recorder.seen_by(SERVER_ALONE)
    assert view.models == {}
    assert all(s.mean is None for s in view.sums)
    assert {f.kind for f in view.frames} >= {"EncryptedInput", "EncryptedSum"}


@pytest.mark.trains
def test_two_servers_together_have_every_update():
    recorder = played(TwoServer())
    both = Observer(frozenset({SERVER, SECOND_SERVER}))
    share = recovered(recorder, both)
    assert len(share) == 4 * CLIENTS
    assert min(share.values()) > 1 - 1e-6
    assert estimates(recorder.seen_by(Observer(frozenset({SECOND_SERVER})))) == {}


@pytest.mark.trains
@pytest.mark.parametrize("parties", ["server+dealer", "second server+dealer"])
def test_the_dealer_and_either_server_have_every_row_of_a_gram_matrix(parties):
    """An update where it is no longer than k; else k measurements of it, of which some of the update follows."""
    recorder = played(TwoServer())
    share = recovered(recorder, named(parties))
    assert len(share) == 4 * CLIENTS
    assert min(share.values()) > 1 - 1e-6
    assert estimates(recorder.seen_by(named("dealer"))) == {}
    short = played(TwoServer(k=600))
    if parties == "server+dealer":
        share = recovered(short, named(parties))
        assert np.mean(list(share.values())) > 0.25  # of 600 measurements of 1218 numbers half of it follows
        assert np.mean([*recovered(short, named("server")).values()]) < 0.5 * np.mean([*share.values()])
    (first, *_), dealt = short.updates.items(), list(dealt_rows(short.seen_by(named(parties))))
    key, x = first
    (question,) = (of for of in dealt if key in of.rows)
    encoded = TwoServer(k=600).terms(len(x)).encode(x).view(np.uint64)
    exact = question.projection.apply(encoded).view(np.int64) * TwoServer(k=600).terms(len(x)).step
    assert np.array_equal(question.rows[key], exact)


@pytest.mark.trains
def test_parties_that_must_not_collude_are_tried_together_and_an_audit_says_what_they_open():
    pairs = [named(f"{one}+{other}") for one, other in combinations(("server", "second server", "dealer"), 2)]
    offered = observers_of(TwoServer(), range(CLIENTS))
    assert set(pairs) <= set(offered)
    whom = [*pairs, *map(named, ("second server", "dealer"))]
    of = replace(scenario, protection=TwoServer(), rounds=2)
    found = audited(of, QUICK, (0,), None, quiet=True, against=whom, experiments=(UpdateRecovery(),))
    value = {row["observer"]: row["leakage"]["value"] for row in found["rows"] if row["leakage"]}
    assert all(value[pair.name] > 0.99 for pair in pairs)
    assert max(value["second server"], value["dealer"]) < 0.05
    claimed = {row["observer"] for row in found["rows"] if row["claims"]}
    assert claimed == {"second server", "dealer"}
    assert not any(claim.adversary(pair) for pair in pairs for claim in CLAIMS)
    whom_words = "server and second server / server and dealer / second server and dealer"
    assert f"{whom_words} can tell single clients' updates (100 %)" in headline(found)


@pytest.mark.trains
@pytest.mark.slow
def test_the_server_and_one_holder_of_the_shared_key_have_every_update():
    recorder = played(Encrypted(), algorithm=when_ripe)
    assert estimates(recorder.seen_by(SERVER_ALONE)) == {}
    share = recovered(recorder, server_and(0))
    assert len(share) == 4 * (CLIENTS - 1)
    assert min(share.values()) > 1 - 1e-6
