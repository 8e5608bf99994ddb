"""Runs over links under every protection that is served, held against simulations: who scores, who owns, who is compared."""

import html
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as torch_load_file
from torch import nn

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg, Local
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fedsoft import FedSoft
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.data.partition import LabelSwap, Rotation
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import initial
from cloister.fl.models.vector import load_vector
from cloister.fl.runs.dealt import Apportioned
from cloister.fl.runs.greeting import Greeting
from cloister.fl.runs.listening import greeting_of, longest
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.member import Member
from cloister.fl.runs.parties import Parties, seed_of
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.masked.noise import Noise
from cloister.protocol.pairs.choices import ONE_RELEASE, PER_PAIR
from cloister.reporting.own_record import read_record, write_client_report
from cloister.reporting.report import write_report

from .served import SMALL, check_models, check_same, played, simulated

pytestmark = pytest.mark.trains
grpc_or_words()

SWAPPED = LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)))
FIVE = LabelSwap(clients=5, groups=2, pairs=((1, 7), (3, 8)), shared_test=True)
COMPARED = {"validation": 0.3, "rounds": 2, "partition": Rotation(clients=4, angles=(0, 90))}
NOISY = replace(SMALL.training, privacy=RecordPrivacy(clip=1.0, multiplier=1.0, budget=1000.0, delta=1e-5))


EXACT = {"projection": "orthonormal", "ratio": 1.0}  # whatever is drawn, distances are the same
ONCE, BY_PAIR = replace(ONE_RELEASE, **EXACT), replace(PER_PAIR, **EXACT)


def emd(choice):
    return EMDCFL(choice=choice, size=Size(20), by_samples=False, eps=0.015)


def scores_in(served):
    return [set(line["about"]) for line in served.read("disclosure.jsonl") if line["what"] == "scores"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"protection": Plain()}, False),
        ({"protection": Plain()}, True),
        ({"protection": Masked(floor=2)}, True),
        ({}, False),
        pytest.param({"protection": Encrypted(floor=2)}, False, marks=pytest.mark.slow),
        ({"algorithm": Local(), "rounds": 1}, False),
        ({"algorithm": CFL(thresholds=ScaleFree(eps1=0.99, eps2=0.1), patience=1), "rounds": 3, "partition": FIVE}, False),
    ],
    ids=["plain", "plain, asked", "masked, asked", "permuted", "encrypted", "alone", "permuted, split"],
)
def test_a_served_run_is_its_simulation(changes, asked, tmp_path):
    scenario = replace(SMALL, **changes)
    expected = simulated(scenario, tmp_path)
    found = played(scenario, tmp_path, scores=asked)
    check_same(found, expected)
    check_models(found, expected)
    told = asked or found.folder.joinpath("models", "0.safetensors").exists() is False
    everybody = set(range(scenario.partition.clients))
    assert scores_in(found) == [everybody] * scenario.rounds * told
    assert scores_in(expected) == []
    if not isinstance(scenario.protection, Plain | Masked):
        assert not list((found.folder / "models").iterdir())
    assert not found.read("faults.jsonl")


@pytest.mark.long
def test_a_client_that_adapts_its_model_ends_with_the_adapted_one(tmp_path):
    scenario = replace(SMALL, rounds=1, algorithm=PerFedAvg(alpha=0.1), protection=Plain())
    found = played(scenario, tmp_path)
    simulation = Simulation(scenario, None)
    simulation.step()
    for i, vector in simulation.vectors().items():
        load_vector(simulation.module, vector)
        for name, tensor in simulation.module.state_dict().items():
            assert np.allclose(found.model(i)[name], tensor.numpy(), atol=1e-5)


@pytest.mark.long
def test_who_does_not_say_how_well_it_predicts_is_no_fault_and_takes_part_all_the_same(tmp_path):
    expected = simulated(SMALL, tmp_path)
    found = played(SMALL, tmp_path, silent=(1, 2))
    assert scores_in(found) == [{0, 3}] * 2
    assert not found.read("faults.jsonl")
    assert found.summary["scored"] == {"clients": 2, "of": 4}
    for mine, theirs in zip(found.read("metrics.jsonl"), expected.read("metrics.jsonl"), strict=True):
        assert mine["accuracy"] == {i: theirs["accuracy"][i] for i in ("0", "3")}
    check_models(found, expected)
    assert "told by 2 of 4 clients" in write_report(found.folder).read_text()
    assert any("withheld" in line for line in found.record(1))
    assert not any("withheld" in line for line in found.record(0))


@pytest.mark.long
def test_a_run_of_which_nobody_says_how_well_it_predicts_has_a_report(tmp_path):
    found = played(replace(SMALL, rounds=1), tmp_path, silent=range(4))
    assert scores_in(found) == []
    assert found.summary["accuracy_mean"] is None
    assert "told by 0 of 4 clients" in write_report(found.folder).read_text()


@pytest.mark.long
def test_a_run_whose_clients_choose_and_say_nothing_ends_with_models_and_a_report(tmp_path):
    found = played(
        replace(SMALL, rounds=1, algorithm=IFCA(models=2), protection=Masked(floor=2, slot_spare=0)), tmp_path, silent=range(4)
    )
    assert set(found.ended.values()) == {None}
    assert found.summary["clusters"] == [[], []]
    assert found.summary["ari"] is None
    assert all(found.model(i) for i in range(4))
    assert "told by 0 of 4 clients" in write_report(found.folder).read_text()


@pytest.mark.parametrize(
    ("algorithm", "protection"),
    [(IFCA(models=2), Masked(floor=2, slot_spare=0)), (FedEM(models=2), Permuted(floor=2)), (FedSoft(models=2), Plain())],
    ids=["one of K", "a mixture", "its own"],
)
@pytest.mark.long
def test_clients_weigh_models_by_their_own_data(algorithm, protection, tmp_path):
    scenario = replace(SMALL, algorithm=algorithm, protection=protection, partition=SWAPPED)
    expected, found = simulated(scenario, tmp_path), played(scenario, tmp_path)
    check_same(found, expected)
    words = {line["words"] for line in found.read("disclosure.jsonl") if line["what"] == "scores"}
    assert all("goes by most" in of for of in words)
    chose = [line["chose"] for line in found.record(0) if "chose" in line]
    assert [len(shares) for shares in chose] == [2] * scenario.rounds
    assert all(sum(map(bool, shares)) == 1 for shares in chose) == isinstance(algorithm, IFCA)
    page = write_client_report(found.home[0]).read_text()
    assert "Which models it chose" in page
    assert ("how many clients chose each model, and not who, unless" in page) == isinstance(protection, Masked)
    assert sum("named" in line for line in found.record(0)) == scenario.rounds
    if not isinstance(algorithm, FedSoft):
        check_models(found, expected)
    if isinstance(algorithm, FedEM):
        weights = json.loads((found.home[0] / "weights.json").read_text())
        assert np.isclose(sum(weights), 1)
        models = [load_file(path) for path in sorted((expected.folder / "models").iterdir())]
        for k, model in enumerate(models):
            own = load_file(found.home[0] / f"model-{k}.safetensors")
            assert all(np.allclose(own[part], tensor, atol=1e-5) for part, tensor in model.items())


@pytest.mark.parametrize(
    ("choice", "protection"),
    [(ONCE, Masked(floor=2)), (BY_PAIR, Permuted(floor=2)), (BY_PAIR, Plain())],
    ids=["once for all", "pair by pair, permuted", "pair by pair, plain"],
)
@pytest.mark.long
def test_clients_are_compared_over_links(choice, protection, tmp_path):
    scenario = replace(SMALL, protection=protection, algorithm=emd(choice), **COMPARED)
    expected, found = simulated(scenario, tmp_path), played(scenario, tmp_path)
    check_same(found, expected)
    check_models(found, expected)
    pairs, known = ([line["pairs"] for line in of.read("pairs.jsonl")] for of in (found, expected))
    assert pairs == known
    assert len({accepts for _, _, accepts, _ in pairs[0]}) == 2
    kinds = {one["what"] for line in found.record(0) for one in line.get("revealed", ())}
    assert "PairClouds" in kinds
    assert ("SealedEmbedding" in kinds) == (choice is BY_PAIR)


@pytest.mark.long
def test_a_coordinator_that_relays_its_own_key_in_a_pair_learns_nothing_of_data(tmp_path):
    kinds = []

    def swapped(frame):
        kinds.append((frame.kind, frame.sender, frame.receiver))
        if frame.kind == "PairKey" and frame.sender == -1:
            body = bytearray(frame.data)
            body[-80] ^= 1  # in the key or its signature
            return [replace(frame, data=bytes(body))]
        return [frame]

    scenario = replace(SMALL, algorithm=emd(BY_PAIR), protection=Plain(), faults=swapped, **COMPARED | {"rounds": 1})
    found = played(scenario, tmp_path, mine=replace(scenario, faults=None))
    assert ("PairKey", 0, -1) in kinds
    assert not {kind for kind, _, _ in kinds} & {"SealedEmbedding", "PairClouds"}
    assert any("is not signed by it" in of["why"] for line in found.record(0) for of in line.get("refused", ()))


@pytest.mark.long
def test_training_with_noise_is_on_each_clients_own_ledger_and_of_its_own_secrets(tmp_path):
    scenario = replace(SMALL, training=NOISY)
    expected = simulated(scenario, tmp_path)
    found = played(scenario, tmp_path)
    known = json.loads((expected.folder / "privacy.json").read_text())["record"]["clients"]
    for i in range(4):
        spent = [line["spent"]["record"] for line in found.record(i) if "spent" in line]
        assert spent[0]["epsilon_worst"] < spent[-1]["epsilon_worst"] == pytest.approx(known[str(i)]["epsilon"])
    assert not (found.folder / "privacy.json").exists()
    assert "privacy" not in found.summary
    whole = load_file(expected.folder / "models/0.safetensors")
    assert any(np.abs(found.model(0)[part] - tensor).max() > 1e-4 for part, tensor in whole.items())  # not the scenario's noise


@pytest.mark.long
def test_what_a_clients_computer_keeps_outlasts_its_process(tmp_path):
    scenario = replace(SMALL, training=NOISY, protection=Plain())
    parties = Parties(scenario, None)
    greeting = Greeting.of(greeting_of(parties, bytes(16))(0))
    (tmp_path / "home").mkdir()
    member = Member(scenario, greeting, tmp_path / "home")
    ledger = member._parties.spending.ledgers[0]
    release = NOISY.privacy.release(100, 1, 20, len(parties.setup.initial))
    member._parties.spending.ledgers[0] = ledger + release
    assert list(member._parties.spending.ledgers) == [0]
    member.said(b"\x80")  # whatever it is told, it stores what it keeps first
    again = Member(scenario, greeting, tmp_path / "home")
    assert again._parties.spending.ledgers[0].spent == (ledger + release).spent


def test_a_client_that_is_started_again_with_other_data_is_told_so_and_so_does_its_page(tmp_path):
    others = replace(SMALL, partition=replace(SMALL.partition, clients=8))
    greeting = Greeting.of(greeting_of(Parties(SMALL, None), bytes(16))(0))
    (tmp_path / "home").mkdir()
    found = [Member(one, greeting, tmp_path / "home").other_data for one in (SMALL, SMALL, others, others)]
    assert found == [False, False, True, False]
    first, *_, last = [line["records"] for line in read_record(tmp_path / "home" / "join.jsonl") if "joined" in line]
    page = write_client_report(tmp_path / "home").read_text()
    assert page.count("and before on other data") == 1
    assert page.count(f", {first} records") == page.count(f", {last} records") == 1


@pytest.mark.long
def test_a_sum_of_weights_that_comes_before_updates_is_no_update_in_a_clients_record(tmp_path):
    counted = replace(SMALL, algorithm=FedAvg(by_samples=True), protection=Masked(floor=2))
    found = played(counted, tmp_path)
    for i in range(4):
        sent = [one["what"] for line in found.record(i) for one in line.get("revealed", ()) if "Input" in one["what"]]
        assert sent == ["MaskedInput, weights", "MaskedInput"] * SMALL.rounds
    page = write_client_report(found.home[0]).read_text()
    assert "its update, hidden by masks that vanish in the sum (2 messages to the coordinator)" in page
    assert "the number of its records and its square, hidden by masks that vanish in the sums, of which both are told (2" in page


@pytest.mark.long
def test_a_client_makes_a_report_of_what_it_revealed_spent_and_refused(tmp_path):
    found = played(replace(SMALL, training=NOISY, rounds=1), tmp_path, silent=(0,))
    page = write_client_report(found.home[0])
    text = page.read_text()
    assert page.stat().st_mode & 0o077 == 0
    for words in (
        "under a secret transform",
        "how well it predicts",
        "did not say",
        "differentially private",
        "No word and no message.",
    ):
        assert words in text
    with open(found.home[1] / "join.jsonl", "a") as record:
        record.write(json.dumps({"time": "T", "refused": [{"of": -1, "why": "<b>no</b>"}]}) + '\n{"cut')
    text = write_client_report(found.home[1]).read_text()
    assert "&lt;b&gt;no" in text
    assert "the coordinator" in text
    (found.home[2] / "join.jsonl").write_text("[]\n{}\n")
    with pytest.raises(ValueError, match="not what a client wrote"):
        write_client_report(found.home[2])


def test_answers_that_a_coordinator_takes_are_as_long_as_its_protocol_needs():
    small = Parties(SMALL, None)
    d = len(small.setup.initial)
    assert longest(small) == (16 << 20) + 32 * d
    assert longest(Parties(replace(SMALL, protection=Encrypted(floor=2)), None)) == (32 << 20) + 80 * d
    slots = Parties(replace(SMALL, algorithm=IFCA(models=3)), None)
    assert longest(slots) == (16 << 20) + 96 * d


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.long
def test_between_evaluations_nobody_is_asked(every, tmp_path):
    scenario = replace(SMALL, rounds=3, evaluate_every=every, algorithm=IFCA(models=2), partition=SWAPPED)
    expected, found = simulated(scenario, tmp_path), played(scenario, tmp_path)
    asked = [line["round"] for line in found.read("disclosure.jsonl") if line["what"] == "scores"]
    assert asked == [t for t in range(3) if (t + 1) % every == 0 or t == 2]
    last, known = found.read("metrics.jsonl")[-1], expected.read("metrics.jsonl")[-1]
    assert last["accuracy"] == pytest.approx(known["accuracy"])
    assert last["clusters"] == known["clusters"]


@pytest.mark.trains
@pytest.mark.long
def test_noise_in_sums_is_on_each_clients_own_ledger_as_the_server_accounts_for_it(tmp_path):
    noise = Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0)
    protection = Masked(floor=2, ring_bits=64, noise=noise)
    found = played(replace(SMALL, algorithm=FedAvg(by_samples=False), protection=protection, rounds=2), tmp_path)
    account = json.loads((found.folder / "privacy.json").read_text())["client"]
    for client in range(4):
        spent = [line["spent"] for line in found.record(client) if "spent" in line][-1]["client"]
        assert spent["epsilon_worst"] == pytest.approx(account["clients"][str(client)]["epsilon"])
        assert 0 < spent["epsilon_worst"] <= spent["budget"] == 10.0
    page = write_client_report(found.home[0]).read_text()
    assert "It added no noise" not in page


def test_a_coordinator_reads_its_data_once_and_goes_by_them(tmp_path):
    read = []

    class Counted(type(SMALL.data)):
        def __call__(self, folder):
            read.append(folder)
            return super().__call__(folder)

    scenario = replace(SMALL, data=Counted())
    dealt = Apportioned.of(scenario, None)
    parties = Parties(scenario, None, dealt)
    assert parties.population is dealt.population
    assert len(read) == 1
    assert np.array_equal(parties.setup.initial, Parties(SMALL, None).setup.initial)


def ends_in_an_error(outputs, targets):
    raise KeyError("no such label")


@pytest.mark.long
def test_a_training_that_ends_in_an_error_is_declined_and_its_own_log_and_record_say_where(tmp_path, caplog):
    ours = replace(SMALL, protection=Masked(floor=2))
    words = r"updates of 4 clients could not be used \(its training failed, as its own log and record say\).* what those say of"
    with pytest.raises(NothingLearned, match=words):
        played(ours, tmp_path, mine=replace(ours, training=replace(SMALL.training, loss=ends_in_an_error)))
    at = ends_in_an_error.__code__.co_firstlineno
    where = f"(test_served.py, line {at}), failed in test_served.py, line {at + 1}: KeyError: 'no such label'"
    assert any(where in getattr(line, "why", "") for line in caplog.records if line.message == "training failed")
    for i in range(4):
        failed = [line for line in read_record(tmp_path / f"client {i}" / "join.jsonl") if "failed" in line]
        assert [line["round"] for line in failed] == [0, 1]
        assert all(where in line["failed"] for line in failed)
    page = html.unescape(write_client_report(tmp_path / "client 0").read_text())
    assert "Its training failed 2 times, first in round 0: Unfit: training.loss, ends_in_an_error" in page


def with_frozen_and_shared_layers(shape, classes):
    """One layer as it was drawn, one that is used twice, and numbers beside parameters."""
    frozen, twice = nn.Linear(64, 6), nn.Linear(6, 6)
    frozen.requires_grad_(False)
    found = nn.Sequential(nn.Flatten(), frozen, twice, nn.ReLU(), twice, nn.Linear(6, classes))
    found.register_buffer("scale", torch.tensor([2.0]))
    return found


@pytest.mark.long
def test_a_model_s_file_is_all_that_a_fresh_module_needs(tmp_path):
    scenario = replace(SMALL, model=with_frozen_and_shared_layers, protection=Masked(floor=2))
    served = played(scenario, tmp_path)
    fresh = with_frozen_and_shared_layers((1, 8, 8), 10)
    fresh.load_state_dict(torch_load_file(served.home[0] / "model.safetensors"))
    other = with_frozen_and_shared_layers((1, 8, 8), 10)
    (path,) = (served.folder / "models").glob("*.safetensors")
    other.load_state_dict(torch_load_file(path))
    drawn = initial(scenario.model, (1, 8, 8), 10, seed_of(scenario.seed, "model"))
    for name, tensor in fresh.state_dict().items():
        assert torch.allclose(tensor, other.state_dict()[name], atol=1e-4), name
        assert torch.equal(tensor, drawn.state_dict()[name]) == name.startswith(("1.", "scale")), name


@pytest.mark.long
@pytest.mark.trains
def test_a_run_that_begins_with_enough_waits_for_who_is_on_the_way(tmp_path):
    """One that was a moment late came a round later, and the difference of two sums was its update."""
    found = played(replace(SMALL, protection=Masked(floor=2)), tmp_path, least=3, late=(1,))
    there = {line["round"]: line["about"] for line in found.read("disclosure.jsonl") if line["what"] == "participation"}
    assert there == {t: [0, 1, 2, 3] for t in range(SMALL.rounds)}
