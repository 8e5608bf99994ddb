"""An audit holds a run against its scenario: the floor of its sums, keys of sketches, seals of shares, counts that are said."""

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from cloister import algorithms, protections
from cloister.auditing.audited import audited
from cloister.auditing.first_words import headline
from cloister.auditing.report import render
from cloister.auditing.tables import claims_table
from cloister.crypto.offset_sketch import OffsetSketch
from cloister.crypto.prg import derive_key
from cloister.fl.algorithms.algorithm import Cluster
from cloister.fl.algorithms.fedavg import Oracle, State
from cloister.fl.data.population import Client, Examples, Population
from cloister.protocol.encrypted.protection import Encrypted
from cloister.protocol.masked import client_shares
from cloister.protocol.masked.messages import SealedShares
from cloister.protocol.masked.protection import Masked
from cloister.protocol.two_servers import upload_client
from cloister.protocol.two_servers.protection import TwoServer
from cloister.protocol.work.participant import Participant
from cloister.protocol.work.sketch_keys import RatchetedKeys
from cloister.protocol.work.tasks import from_own
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.floor_kept import FloorKept, below_floor
from cloister.threat_models.audit.observer import SERVER_ALONE
from cloister.threat_models.audit.truth import Truth
from cloister.threat_models.audit.view import PublishedSum

from .test_audit_masks import MASKED, SHARED, SKETCHED, Patch, played, row_of, small


def truth_of(sizes: Mapping[int, int]) -> Truth:
    def examples(n: int) -> Examples:
        return Examples(torch.zeros(n, 2), torch.zeros(n, dtype=torch.int64))

    clients = {i: Client(i, examples(n), examples(1)) for i, n in sizes.items()}
    return Truth(Population(clients, dict.fromkeys(sizes, 0), 2, (2,)), {}, examples(1))


def summed(row: Mapping[int, float], counted: bool = False, to: Any = "server", round: int = 0) -> PublishedSum:
    return PublishedSum(round, "0", "update", row, counted, to)


ALIKE = truth_of(dict.fromkeys(range(12), 10))
TOO_MUCH = {
    "two clients": (ALIKE, [summed({0: 1.0, 1: 1.0})], "client 1 has 0.50"),
    "one more in a second sum": (ALIKE, [summed(dict.fromkeys(range(n), 1.0)) for n in (8, 9)], "client 8 has 1.00"),
    "a weight": (ALIKE, [summed({0: 9.0, **dict.fromkeys(range(1, 12), 1.0)})], "client 0 has 0.88"),
    "a count": (
        truth_of({0: 90, **dict.fromkeys(range(1, 12), 10)}),
        [summed(dict.fromkeys(range(12), 1.0), counted=True)],
        "client 0 has 0.88",
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_sums_that_do_not_keep_the_floor_are_named(name: str) -> None:
    truth, sums, words = TOO_MUCH[name]
    (found,) = below_floor(sums, truth, 3, 1)
    assert found.startswith(words)
    assert "where 0.25 keeps the floor of 3 with 1 corrupt" in found
    assert not [*below_floor(sums, truth, 1, 0)]  # where none was asked for


def test_sums_that_keep_the_floor_are_not_named() -> None:
    whole, half = dict.fromkeys(range(12), 1.0), dict.fromkeys(range(4), 2.0)
    sums = [summed(half), summed(dict.fromkeys(range(4, 12), 1.0)), summed(whole, round=1), summed({5: 1.0}, to=5)]
    assert not [*below_floor(sums, ALIKE, 3, 1)]
    assert not [*below_floor([summed(whole), summed(dict.fromkeys(whole, 3.0))], ALIKE, 3, 1)]


def pairs(patch: Patch) -> None:
    """Sums of two clients, by protocols that have another floor than their scenario."""

    def lowered(protection: Any) -> None:
        shipped = protection.open
        patch.setattr(protection, "open", lambda how, setup: shipped(replace(how, floor=2, corrupt=0), setup))

    for protection in (Masked, TwoServer, Encrypted):
        lowered(protection)

    def of_two(_: Oracle, start: Any) -> State:
        two = [tuple(start.clients[k : k + 2]) for k in range(0, len(start.clients), 2)]
        return State(0, {str(members[0]): Cluster(members, start.model, seed=start.seed) for members in two})

    patch.setattr(Oracle, "init", of_two)


def one_sketch(patch: Patch) -> None:
    """Of all rounds, under the offset of each: differences of rounds can be compared."""
    shipped = RatchetedKeys.offset

    def offset(keys: RatchetedKeys, session: bytes) -> OffsetSketch:
        terms = keys.terms
        fixed = OffsetSketch.draw(terms.public, b"k" * 32, terms.d, terms.rows, terms.radius)
        return replace(shipped(keys, session), sketch=fixed.sketch)

    patch.setattr(RatchetedKeys, "offset", offset)


def public_sketches(patch: Patch) -> None:
    """Whoever knows the run's name opens them."""
    shipped = RatchetedKeys.__init__
    patch.setattr(RatchetedKeys, "__init__", lambda keys, seed, terms: shipped(keys, terms.run * 2, terms))


def seals_that_carry_more(patch: Patch) -> None:
    """Of client 3's shares those that are sealed to two of its neighbours, not the first."""
    shipped = client_shares.to_server

    def sent(plan: Any, me: int, message: Any) -> Any:
        if isinstance(message, SealedShares) and me == 3:
            first, *rest = message.sealed
            message = replace(message, sealed=(first, *(bytes(len(one)) for one in rest[:2]), *rest[2:]))
        return shipped(plan, me, message)

    patch.setattr(client_shares, "to_server", sent)


def counts_that_are_none(patch: Patch) -> None:
    """A number that each client sends beside its share says something else."""
    shipped = upload_client._shares
    patch.setattr(upload_client, "_shares", lambda state, vector, samples: shipped(state, vector, samples + 1000))


BROKEN: Mapping[str, tuple[Callable[[Patch], None], Any, str]] = {
    "one sketch": (one_sketch, small(MASKED, **SKETCHED), "sketch of round 1 is not what its key gives"),
    "public sketches": (public_sketches, small(MASKED, **SKETCHED), "sketch of round 1 is not what its key gives"),
    "seals": (seals_that_carry_more, small(MASKED, rounds=1), "secrets of round 0 are not shared and sealed as agreed"),
    "counts": (counts_that_are_none, small(SHARED, rounds=1), "round 0: it says 1"),
}


@pytest.mark.trains
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.long
def test_what_is_not_as_the_scenario_says_is_refuted(name: str, monkeypatch: Patch) -> None:
    broken, scenario, words = BROKEN[name]
    broken(monkeypatch)
    (claim,) = [j for j in row_of(scenario, SERVER_ALONE).claims if ".masks." in j.claim.id]
    assert claim.verdict == "refuted"
    assert words in claim.witness


IN_PAIRS = "client 7 has 0.50 of what the 4 sums of updates of round 0 tell of it, where 0."
FLOORS = {"masked": MASKED, "two_servers": SHARED, "ckks": protections.Encrypted(corrupt=1)}


@pytest.mark.trains
@pytest.mark.parametrize("broken", [False, True], ids=["sound", "broken"])
@pytest.mark.parametrize("protocol", FLOORS)
@pytest.mark.long
def test_a_floor_that_is_lower_than_the_scenarios_refutes_a_claim_of_its_own(
    protocol: str, broken: bool, monkeypatch: Patch
) -> None:
    """In the table, the report and the first words."""
    if broken:
        pairs(monkeypatch)
    scenario = small(FLOORS[protocol], algorithm=(algorithms.Oracle if broken else algorithms.FedAvg)(by_samples=False), rounds=2)
    found = audited(scenario, QUICK, (0,), None, quiet=True, against=(SERVER_ALONE,), experiments=(FloorKept(),))
    (row,) = (row for row in found["rows"] if row["experiment"] == "floor")
    (claim,) = row["claims"]
    assert (claim["claim"], claim["bound"], row["tested"]) == (f"{protocol}.floor.server", 0.0, True)
    assert claim["verdict"] == ("refuted" if broken else "not refuted")
    assert (IN_PAIRS if broken else "2 published sums of 2 rounds") in claim["witness"]
    assert claim["claim"] in render(found)
    console = Console(file=io.StringIO(), width=200)
    console.print(claims_table(found, 200))
    assert claim["claim"] in console.file.getvalue()  # type: ignore[attr-defined]
    assert ("1 of" if broken else "1 passed a test of all published sums") in headline(found)


@pytest.mark.trains
def test_a_run_without_one_published_sum_is_not_covered() -> None:
    scenario = small(MASKED, clients=12, rounds=1, algorithm=algorithms.IFCA(models=2))
    found = audited(scenario, QUICK, (0,), None, quiet=True, against=(SERVER_ALONE,), experiments=(FloorKept(),))
    (claim,) = (claim for row in found["rows"] if row["experiment"] == "floor" for claim in row["claims"])
    assert claim["verdict"] == "not covered"
    assert "no sum was published" in claim["witness"]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("keys", ["session", "run"])
def test_sound_sketches_are_not_named(keys: Any) -> None:
    of = {**SKETCHED, "algorithm": replace(SKETCHED["algorithm"], similarities="every round")} if keys == "run" else SKETCHED
    recorder = played(small(protections.Masked(corrupt=1, keys=keys), 3, **of))
    assert not recorder.truth.foreign
    asked = {c.round for c in recorder.compared}
    some = max(key for key in recorder._worked if key[0] in asked)
    start, work = recorder._worked[some]
    recorder._worked[some] = start, replace(work, vector=work.vector + np.float32(1))
    t, _, client = some
    assert recorder.truth.foreign == (f"client {client}'s sketch of round {t} is not what its key gives",)


# --- who begins from a model of its own -------------------------------------------------------------------------------------

OF_THEIR_OWN = {
    "PFedGraph": algorithms.PFedGraph(),
    "FedSaC": algorithms.FedSaC(),
    "FeSEM": algorithms.FeSEM(models=2),  # from a model that the server holds, beside the public one
}


def personal(name: str, keys: Any, seed: int) -> Any:
    return small(protections.Masked(keys=keys), seed, algorithm=OF_THEIR_OWN[name], validation=0.3, rounds=3)


@pytest.mark.trains
@pytest.mark.parametrize("keys", ["session", "run"])
@pytest.mark.parametrize("name", OF_THEIR_OWN)
@pytest.mark.long
def test_sound_sketches_of_who_has_a_model_of_its_own_are_not_named(name: str, keys: Any) -> None:
    for seed in range(3):
        recorder = played(personal(name, keys, seed))
        assert not recorder.truth.foreign
        assert bool(recorder.recorded.apart) == (name != "FeSEM")
        assert {c.round for c in recorder.compared} == {0, 1, 2}


def one_key(patch: Patch) -> None:
    """Of all rounds and sessions."""
    patch.setattr(RatchetedKeys, "advance", lambda keys, round: None)
    patch.setattr(RatchetedKeys, "key", lambda keys, session: derive_key(keys._chain, "sketch", b""))


def key_of_the_run(patch: Patch) -> None:
    """Which the server knows, too."""
    patch.setattr(RatchetedKeys, "key", lambda keys, session: derive_key(keys.terms.run * 2, "sketch", session))


def of_last_round(patch: Patch) -> None:
    """Who begins from a model of its own sketches that, and nothing of what it learned."""
    shipped = Participant.checked

    def checked(own: Participant, doing: Any, work: Any) -> Any:
        found = shipped(own, doing, work)
        return replace(found, vector=found.vector - work.vector) if from_own(doing.task) and found is not work else found

    patch.setattr(Participant, "checked", checked)


@pytest.mark.trains
@pytest.mark.parametrize("broken", [one_key, key_of_the_run, of_last_round])
@pytest.mark.parametrize("name", OF_THEIR_OWN)
@pytest.mark.long
def test_wrong_sketches_of_who_has_a_model_of_its_own_are_named(
    name: str, broken: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    broken(monkeypatch)
    recorder = played(personal(name, "session", 0))
    began = {(t, i) for t, i in recorder.recorded.apart} or {(t, i) for t, _, i in recorder.updates if t}
    named = {(t, i) for t, i in began if f"client {i}'s sketch of round {t} is not what its key gives" in recorder.truth.foreign}
    assert len(named) > len(began) / 2
