"""What an audit finds whatever message it is in: copies of updates and keys, halves that are astray, sums that are of others."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister import algorithms, partitions, protections
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.drivers.roles import Effect, Send
from cloister.protocol.encrypted import keys as encrypted_keys
from cloister.protocol.masked.client_inputs import Inputs
from cloister.protocol.masked.messages import SurvivorSignature
from cloister.protocol.two_servers import dealer, upload_client
from cloister.protocol.two_servers.messages import KeyedTriple
from cloister.protocol.wire.codec import decode, encode
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.audit.added_words import added
from cloister.threat_models.audit.carried import FORMATS, carried
from cloister.threat_models.audit.ckks import drawn_again
from cloister.threat_models.audit.coalitions import joined_shares
from cloister.threat_models.audit.dealt import dealt_rows
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.floor_kept import below_floor, other_sums
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.masks import AddedWords, examined
from cloister.threat_models.audit.observer import SERVER_ALONE, Observer
from cloister.threat_models.audit.opened_rows import opened_rows
from cloister.threat_models.audit.recorded import Recorded
from cloister.threat_models.audit.recorder import Recorder, again
from cloister.threat_models.audit.recording import load, save
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import Row, rows
from cloister.threat_models.claims import CLAIMS
from cloister.threat_models.membership import Pool

from .test_audit_masks import MASKED, SHARED, SKETCHED, Patch, played, small

ENCRYPTED = protections.Encrypted()
PROTECTIONS = {"masked": MASKED, "two servers": SHARED, "encrypted": ENCRYPTED}


@cache
def sound(name: str) -> Recorded:
    found: Recorded = played(small(PROTECTIONS[name], rounds=1)).recorded
    return found


def verdicts(scenario: Any, experiment: Any, *observers: Observer) -> dict[str, str]:
    """By claim."""
    stage = [one for one in stages(scenario, [scenario.seed], None) if isinstance(one, Stage)]
    found: list[Row] = list(rows(stage, observers, (experiment,), [c for c in CLAIMS if c.experiment == experiment.name], QUICK))
    return {j.claim.id: f"{j.verdict}: {j.witness}" for row in found for j in row.claims}


# --- a run that ends --------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("error", [ValueError("operands could not be broadcast"), IndexError("out of bounds")])
def test_an_error_of_the_code_is_no_end_of_a_lie(error: Exception, monkeypatch: Patch) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(FedAvg, "round", broken)
    with pytest.raises(type(error), match=str(error)):
        again(small(MASKED, rounds=1), None, lambda frame: (frame,))


# --- copies -----------------------------------------------------------------------------------------------------------------


def with_copy(run: Recorded, client: int, of: int, dtype: str, cut: slice = slice(None)) -> Recorded:
    """The run in which a client's update stands behind the last thing that it sent."""
    last = max(k for k, frame in enumerate(run.frames) if frame.sender == client)
    copy = run.truth.updates[0, "update", of].astype(dtype)[cut].tobytes()
    frames = [replace(f, data=f.data + copy) if k == last else f for k, f in enumerate(run.frames)]
    return replace(run, frames=tuple(frames))


@pytest.mark.trains
@pytest.mark.parametrize("name", ["masked", "two servers"])
def test_a_copy_of_an_update_is_found(name: str) -> None:
    run = sound(name)
    assert not [*carried(run.seen_by(SERVER_ALONE), run.truth)]
    for dtype in FORMATS:
        broken = with_copy(run, 3, 3, dtype)
        (words,) = carried(broken.seen_by(SERVER_ALONE), run.truth)
        assert words.startswith("client 3's update of round 0 is copied in a ")
        assert not [*carried(broken.seen_by(Observer(clients=frozenset({0}))), run.truth)]
        assert not [*carried(broken.seen_by(Observer(frozenset({SERVER}), frozenset({3}))), run.truth)]
    quarter = with_copy(run, 3, 3, "<f4", slice(0, len(run.truth.updates[0, "update", 3]) // 4))
    assert [*carried(quarter.seen_by(SERVER_ALONE), run.truth)]


@pytest.mark.trains
def test_what_a_server_passes_on_is_found_with_who_is_sent_it() -> None:
    run = sound("masked")
    frame = max((f for f in run.frames if (f.sender, f.receiver) == (SERVER, 0)), key=lambda f: f.number)
    copy = run.truth.updates[0, "update", 5].tobytes()
    broken = replace(run, frames=tuple(replace(f, data=f.data + copy) if f is frame else f for f in run.frames))
    (words,) = carried(broken.seen_by(Observer(clients=frozenset({0}))), run.truth)
    assert words.startswith("client 5's update of round 0")
    assert not [*carried(broken.seen_by(Observer(clients=frozenset({1}))), run.truth)]


@pytest.mark.long
@pytest.mark.trains
def test_a_copy_refutes_where_no_mean_is_known(monkeypatch: Patch) -> None:
    """Under `Encrypted` the server knows no mean by which an update would be noticed."""
    shipped = Recorder.recorded.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Recorder, "recorded", property(lambda recorder: with_copy(shipped(recorder), 3, 3, "<f4")))
    found = verdicts(small(ENCRYPTED, rounds=1), UpdateRecovery(), SERVER_ALONE)
    assert found["ckks.updates.server"].startswith("refuted: seed 0: client 3's update of round 0 is copied in a ")


@pytest.mark.trains
@pytest.mark.parametrize("secret", ["self mask's seed", "mask key's secret", "sealing key's secret", "mask key with client 2"])
def test_a_secret_in_a_field_that_is_free_is_named(secret: str) -> None:
    from cloister.protocol.masked.masking import MaskedSessions
    from cloister.threat_models.audit.mask_keys import _sessions
    from cloister.threat_models.audit.own_secrets import OwnSecrets

    recorder = played(small(MASKED, rounds=1))
    assert not recorder.truth.foreign
    run = recorder._view.harness.run
    charter = recorder._view.harness.part(MaskedSessions).charter
    sessions = _sessions(recorder.tap.frames, run.network.kinds, charter)

    def told(frame: Frame) -> Frame:
        if frame.kind != SurvivorSignature.__name__ or frame.sender != 3:
            return frame
        envelope = decode(frame.data, 3, len(frame.data), run.network.kinds)
        own = OwnSecrets.of(sessions[envelope.session].plan, 3, run.setup.entropy)
        (pair,) = (k.key for k in recorder.truth.mask_keys[envelope.session] if (k.a, k.b) == (2, 3))
        head = {**dict(own.secrets), "mask key with client 2": pair}[secret]
        return replace(frame, data=encode(replace(envelope, message=replace(envelope.message, head=head))))

    recorder.tap.frames[:] = [told(frame) for frame in recorder.tap.frames]
    assert recorder.truth.foreign == (f"client 3's {secret} of round 0 stands in what it sends",)


# --- two servers ------------------------------------------------------------------------------------------------------------


def sent(effect: Effect) -> Send:
    assert isinstance(effect, Send)
    return effect


def key_to_both(patch: Patch) -> None:
    shipped = upload_client._shares

    def shares(*given: Any) -> Any:
        key, explicit = map(sent, shipped(*given))
        return key, explicit, Send(replace(key.envelope, receiver=SERVER))

    patch.setattr(upload_client, "_shares", shares)


def share_to_both(patch: Patch) -> None:
    shipped = upload_client._shares

    def shares(*given: Any) -> Any:
        key, explicit = map(sent, shipped(*given))
        return key, explicit, Send(replace(explicit.envelope, receiver=SECOND_SERVER))

    patch.setattr(upload_client, "_shares", shares)


@pytest.mark.trains
def test_both_halves_of_a_share_at_one_server_are_found(monkeypatch: Patch) -> None:
    key_to_both(monkeypatch)
    recorder = played(small(SHARED, rounds=1))
    view = recorder.seen_by(SERVER_ALONE)
    opened = dict(joined_shares(view))
    assert set(opened) == set(recorder.updates)
    for key, vector in opened.items():
        assert np.allclose(vector, recorder.updates[key], atol=1e-4)
    assert any("the server was sent a KeyShare by client 0" in words for words in recorder.truth.foreign)
    assert "client 0's share key of round 0 stands in what it sends to the first server" in recorder.truth.foreign


@pytest.mark.trains
def test_a_share_at_the_second_server_refutes_its_claims(monkeypatch: Patch) -> None:
    share_to_both(monkeypatch)
    found = verdicts(small(SHARED, rounds=2), UpdateRecovery(), Observer(frozenset({SECOND_SERVER})))
    assert found["two_servers.updates.second-server"].startswith("refuted")


@pytest.mark.trains
def test_a_key_at_the_first_server_refutes_what_is_claimed_of_shares(monkeypatch: Patch) -> None:
    key_to_both(monkeypatch)
    found = verdicts(small(SHARED, rounds=1, **SKETCHED), AddedWords(), SERVER_ALONE)
    assert found["two_servers.masks.server"].startswith("refuted")


@pytest.mark.trains
def test_a_triple_with_one_server_is_found(monkeypatch: Patch) -> None:
    shipped = dealer.dealer_step

    def step(state: Any, event: Any) -> Any:
        after, effects = shipped(state, event)
        more = [
            Send(replace(e.envelope, receiver=SERVER))
            for e in effects
            if isinstance(e, Send) and isinstance(e.envelope.message, KeyedTriple)
        ]
        return after, (*effects, *more)

    monkeypatch.setattr("cloister.protocol.two_servers.run.dealer_step", step)
    recorder = played(small(SHARED, rounds=2, **SKETCHED))
    assert [*dealt_rows(recorder.seen_by(SERVER_ALONE))]
    assert any("the server was sent a KeyedTriple by dealer" in words for words in recorder.truth.foreign)


# --- sums -------------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_frames_say_was_opened_is_what_was_published(name: str) -> None:
    run = sound(name)
    view = run.seen_by(SERVER_ALONE)
    published = [(s.round, s.kind, set(s.row)) for s in run.sums]
    assert [(s.round, s.kind, set(s.row)) for s in opened_rows(view)] == published
    assert len(published) == 1
    assert not [*other_sums(run.sums_alone.sums, run.truth, PROTECTIONS[name])]


@pytest.mark.trains
@pytest.mark.parametrize("name", PROTECTIONS)
@pytest.mark.parametrize("change", [0.9, 2.0])
def test_a_mean_in_which_one_client_weighs_more_is_of_another_sum(name: str, change: float) -> None:
    run = sound(name)
    first = run.sums[0]
    moved = (change - 1) * run.truth.updates[0, "update", 3] / len(first.row)
    assert first.mean is not None
    broken = [replace(first, mean=(first.mean + moved).astype(np.float32))]
    (words,) = other_sums(broken, run.truth, PROTECTIONS[name])
    assert words.startswith("the sum of updates 0 of round 0 is off by 0.")


@pytest.mark.trains
def test_a_client_that_puts_in_more_refutes_the_floor(monkeypatch: Patch) -> None:
    """As its own code encodes it: masks hide it as they should, and the weights that are told say nothing of it."""
    from cloister.threat_models.audit.floor_kept import FloorKept

    shipped = Inputs._vector

    def heavy(inputs: Inputs, session: Any, terms: Any, work: Any) -> Any:
        return shipped(inputs, session, terms, replace(work, vector=work.vector * 5) if inputs.me == 3 else work)

    monkeypatch.setattr(Inputs, "_vector", heavy)
    found = verdicts(small(MASKED, rounds=1), FloorKept(), SERVER_ALONE)
    assert found["masked.floor.server"].startswith("refuted: seed 0: the sum of updates 0 of round 0 is off by 0.")


@pytest.mark.trains
@pytest.mark.parametrize("name", PROTECTIONS)
def test_a_sum_that_was_opened_and_told_to_nobody_is_held_against_the_floor(name: str, monkeypatch: Patch) -> None:
    from .test_audit_held_against import pairs

    pairs(monkeypatch)
    monkeypatch.setattr(Recorder, "_hear", lambda *_: None)
    how = PROTECTIONS[name]
    recorder = played(small(how, rounds=1, algorithm=algorithms.Oracle(by_samples=False)))
    assert not recorder.sums
    (words,) = below_floor([*opened_rows(recorder.seen_by(SERVER_ALONE))], recorder.truth, how.floor, how.corrupt)
    assert words.startswith("client 7 has 0.50 of what the 4 sums of updates of round 0 tell of it")


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("by_samples", [False, True])
@pytest.mark.parametrize("name", ["masked", "two servers"])
def test_a_member_that_says_another_number_of_samples_refutes_nothing(name: str, by_samples: bool, tmp_path: Path) -> None:
    """It is an attacker, and says so in its work: protections hide what it gives all the same."""
    how = replace(MASKED, max_samples=200) if name == "masked" else SHARED
    lying = Adversary(members=Pool(2), samples=0.5)
    alike, algorithm = partitions.Iid(clients=12), algorithms.FedAvg(by_samples=by_samples)
    scenario = small(how, partition=alike, rounds=1, adversary=lying, algorithm=algorithm)
    recorder = played(scenario)
    assert len(recorder.truth.said) == 2
    save(recorder.recorded, tmp_path / "recording")
    run = load(tmp_path / "recording", scenario)
    assert run.truth.said == recorder.truth.said
    assert not examined(added(run.seen_by(SERVER_ALONE), run.truth)).witness
    assert run.sums
    assert not [*other_sums(run.sums_alone.sums, run.truth, how)]
    assert not [*below_floor(run.sums, run.truth, how.floor, how.corrupt)]
    if by_samples:
        assert [*other_sums(run.sums_alone.sums, replace(run.truth, said={}), how)]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [protections.Plain(), MASKED], ids=["plain", "masked"])
def test_a_member_whose_upload_is_no_number_ends_no_attack(protection: Any) -> None:
    """It is refused, and on no record; before, linear algebra of an attack did not converge, and nobody's update counted."""
    one = Adversary(members=Pool(2), upload=lambda own: own.update * np.float32(np.nan))
    scenario = small(protection, clients=12, rounds=1, adversary=one)
    stage = [one for one in stages(scenario, [0], None) if isinstance(one, Stage)]
    assert len(stage[0].audited.truth.updates) == 10
    for row in rows(stage, (SERVER_ALONE,), (UpdateRecovery(), LabelInference()), (), QUICK):
        assert row.leakage is not None
        assert np.isfinite(row.leakage.plain)
        assert row.leakage.valid or row.experiment == "labels"


# --- encryption -------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_randomness_that_serves_twice_is_found() -> None:
    run = sound("encrypted")
    assert not drawn_again(run.seen_by(SERVER_ALONE))
    inputs = [frame for frame in run.frames if frame.kind == "EncryptedInput"]
    kinds = run.public.kinds
    (one, other) = (decode(f.data, f.sender, len(f.data), kinds) for f in inputs[:2])
    both = encode(replace(other, message=one.message))
    frames = tuple(replace(f, data=both) if f is inputs[1] else f for f in run.frames)
    assert drawn_again(replace(run, frames=frames).seen_by(SERVER_ALONE)).startswith(f"client {other.sender}'s input of round 0")


@pytest.mark.trains
def test_a_seed_that_no_client_drew_is_named(monkeypatch: Patch) -> None:
    from cloister.protocol.seeding.client import Seeded

    assert not sound("encrypted").truth.foreign
    monkeypatch.setattr(Seeded, "seed", property(lambda seeded: seeded.member.session.run * 2))
    assert played(small(ENCRYPTED, rounds=1)).truth.foreign == ("the seed that clients share is not what a client drew",)


@pytest.mark.trains
def test_a_seed_that_is_sent_is_named(monkeypatch: Patch) -> None:
    run = next(iter(sound("encrypted").seeds.values()))
    shipped = encrypted_keys.tag_of
    monkeypatch.setattr(encrypted_keys, "tag_of", lambda seed, context: seed)
    assert shipped is not encrypted_keys.tag_of
    (words,) = played(small(ENCRYPTED, rounds=1)).truth.foreign
    assert words.startswith("the seed that clients share stands in a OfferedKey that client ")
    assert len(run) == 32
