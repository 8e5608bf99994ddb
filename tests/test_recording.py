"""A recorded run that was saved and loaded is the run that was played; what is damaged is refused in one line."""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL, Gap
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, server_and
from cloister.threat_models.audit.recorded import Recorded
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recording import FILES, SUMS, load, save
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import READINGS, Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.view import Answered

pytestmark = pytest.mark.trains

BASE = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(12,)),
    training=Training(epochs=1, batch=20, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False),
    protection=Masked(),
    rounds=3,
)
SCENARIOS = {
    "plain": replace(BASE, protection=Plain()),
    "masked": BASE,
    "permuted": replace(BASE, protection=Permuted()),
    "two servers": replace(BASE, protection=TwoServer()),
    "pairs": replace(BASE, algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR, size=Size(20)), protection=Plain(), validation=0.3),
}
BOTH = Observer(frozenset({SERVER, SECOND_SERVER}))
OBSERVERS = (SERVER_ALONE, server_and(1), BOTH, Observer(clients=frozenset({0, 2})), NETWORK)


@cache
def played(name: str) -> Recorded:
    recorder = Recorder(SCENARIOS[name], None, readings=READINGS)
    assert list(recorder.rounds()) == [1, 2, 3]
    return recorder.recorded


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "masked"
    save(played("masked"), folder)
    return folder


def same(one: Any, other: Any) -> bool:
    """To the bit, whatever they are made of; a list is as good as a tuple."""
    if isinstance(one, torch.nn.Module):
        return same(one.state_dict(), other.state_dict())
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if is_dataclass(one) and not isinstance(one, type):
        return type(one) is type(other) and all(same(getattr(one, f), getattr(other, f)) for f in one.__dataclass_fields__)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


# --- what comes back ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_loaded_is_what_was_saved(name: str, tmp_path: Path) -> None:
    recorded = played(name)
    save(recorded, tmp_path / "recording")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load(tmp_path / "recording", SCENARIOS[name])
    for observer in OBSERVERS:
        assert same(recorded.seen_by(observer), loaded.seen_by(observer)), observer.name
    assert same(recorded.sums_alone, loaded.sums_alone)
    assert same(recorded.truth, loaded.truth)
    assert same(recorded.meters, loaded.meters)
    assert len(recorded.frames) > 0 < len(recorded.truth.updates)
    assert json.loads((tmp_path / "recording" / "recording.json").read_text())["lines"]["left_out"] == []


def test_the_comparison_of_this_test_can_fail() -> None:
    one = played("masked")
    frame = replace(one.frames[0], data=b"x" + one.frames[0].data[1:])
    assert not same(one.seen_by(NETWORK), one.seen_by(SERVER_ALONE))
    assert not same(one.frames, (frame, *one.frames[1:]))
    assert not same(one.truth, played("plain").truth)


OTHERS = {
    "accumulate": FeSEM(models=2, centres="printed"),
    "choose": FLIC(rounds_before=1, participation=0.5, sampling="random", similarities="every round"),
    "coordinates": RobustFedAvg(rule=Median()),
    "slots": FedEM(models=2),
    "personal_sums": PFedGraph(),
}


@pytest.mark.parametrize("asked", OTHERS)
def test_other_answers_are_kept_too(asked: str, tmp_path: Path) -> None:
    scenario = replace(BASE, algorithm=OTHERS[asked], protection=Plain(), validation=0.3)
    recorder = Recorder(scenario, None)
    assert list(recorder.rounds()) == [1, 2, 3]
    save(recorder.recorded, tmp_path / "recording")
    loaded = load(tmp_path / "recording", scenario)
    assert asked in {one.asked for one in loaded.answered}
    assert same(recorder.recorded.answered, loaded.answered)
    assert json.loads((tmp_path / "recording" / "recording.json").read_text())["lines"]["left_out"] == []


def test_an_answer_of_another_kind_is_left_out_and_listed(tmp_path: Path) -> None:
    recorded = played("masked")
    odd = (Answered(2, "choose", {0: object()}), Answered(1, "walk", 3), Answered(0, "choose", {0: "0"}))
    save(replace(recorded, answered=odd), tmp_path / "recording")
    (one,) = load(tmp_path / "recording", BASE).answered
    assert (one.round, one.asked, one.value) == (0, "choose", {0: "0"})
    left_out = json.loads((tmp_path / "recording" / "recording.json").read_text())["lines"]["left_out"]
    assert left_out == ["choose in round 2", "walk in round 1"]


def test_truth_is_in_a_file_of_its_own(saved: Path) -> None:
    recorded = played("masked")
    parties = b"".join((saved / name).read_bytes() for name in FILES[:3])
    truth = (saved / "truth.safetensors").read_bytes()
    for update in recorded.truth.updates.values():
        assert update.tobytes() in truth
        assert update.tobytes() not in parties
    train = recorded.truth.population.clients[3].train.x.numpy().tobytes()
    assert train in truth
    assert train not in parties


def test_an_audit_of_it_has_the_rows_of_a_live_one(saved: Path) -> None:
    def audited(recorded: Mapping[int, Recorded]) -> list[dict[str, Any]]:
        found, said = [], []
        for one in stages(BASE, [0], None, recorded):
            (found if isinstance(one, Stage) else said).append(one)
        assert len(said) == (3 if recorded else 4)  # the audited run is not played again
        return [row.as_dict() for row in rows(found, (SERVER_ALONE, server_and(0)), (UpdateRecovery(),), (), QUICK)]

    assert audited({0: load(saved, BASE)}) == audited({})


# --- what is refused ------------------------------------------------------------------------------------------------------------


def refused(folder: Path, scenario: Scenario = BASE) -> str:
    with pytest.raises(ValueError, match=r"^(the recording )?/") as caught:
        load(folder, scenario)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def resigned(folder: Path) -> Path:
    """With hashes that fit what is there: of somebody who writes recordings to do harm."""
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in FILES]
    (folder / SUMS).write_text("".join(lines))
    return folder


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_file_is_named(saved: Path, tmp_path: Path, name: str, how: str) -> None:
    folder = copied(saved, tmp_path / "damaged")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    if how == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content if how == "flipped" else content[: len(content) // 2])
    assert f"damaged: {name}" in refused(folder)


def test_a_folder_without_a_recording(saved: Path, tmp_path: Path) -> None:
    assert "holds no recording" in refused(tmp_path)
    folder = copied(saved, tmp_path / "unlisted")
    (folder / SUMS).write_text("\n".join((folder / SUMS).read_text().splitlines()[1:]))
    assert "does not list" in refused(folder)
    (folder / SUMS).write_text((saved / SUMS).read_text() + f"{'0' * 64}  ../../etc/passwd\n")
    assert "does not list" in refused(folder)


def test_a_recording_is_of_its_scenario(saved: Path, tmp_path: Path) -> None:
    assert "another algorithm, training or protection" in refused(saved, replace(BASE, protection=Masked(corrupt=2)))
    assert "another model" in refused(saved, replace(BASE, seed=1))
    assert "another model" in refused(saved, replace(BASE, model=Mlp(hidden=(13,))))


def test_a_recording_is_written_once(saved: Path) -> None:
    with pytest.raises(ValueError, match="is there already"):
        save(played("masked"), saved)


def test_forged_contents_are_refused_in_one_line(saved: Path, tmp_path: Path) -> None:
    """Whatever else is changed, hashes and all: it is refused in one line, or it is read."""
    rng, count = np.random.default_rng(0), 60
    whole = (saved / "recording.json").read_text()
    folder = copied(saved, tmp_path / "forged")
    for text in ("", "[]", "{}", "[" * 100_000, whole[:-20], whole.replace('"format": 2', '"format": 3')):
        (folder / "recording.json").write_text(text)
        assert "cannot be read" in refused(resigned(folder))
    plain = json.loads(whole)
    wrong = {
        "messages": [99999], "frame_kinds": [], "clients": [0], "initial": "0" * 32, "owner": "nobody", "run": "xyz",
        "seeds": {"keys": [], "values": []}, "rounds": "3", "answered": [{"round": 0, "asked": "walk", "value": "1"}],
    }  # fmt: skip
    for name, value in wrong.items():
        (folder / "recording.json").write_text(json.dumps({**plain, "lines": {**plain["lines"], name: value}}))
        assert "cannot be read" in refused(resigned(folder)), name
    (folder / "recording.json").write_text(whole)
    read, said = 0, list[str]()
    for _ in range(count):
        name = FILES[rng.integers(len(FILES))]
        content = bytearray((saved / name).read_bytes())
        content[rng.integers(min(len(content), 4000))] = rng.integers(256)
        (folder / name).write_bytes(content)
        try:
            load(resigned(folder), BASE)
            read += 1
        except ValueError as error:
            said.append(str(error))
        (folder / name).write_bytes((saved / name).read_bytes())
    assert read < count
    assert not any("\n" in words for words in said)


def test_numbers_that_no_run_has_are_refused(saved: Path, tmp_path: Path) -> None:
    plain = json.loads((saved / "recording.json").read_text())
    folder, lines = copied(saved, tmp_path / "numbers"), plain["lines"]
    one, row = lines["sums"][0], lines["sums"][0]["row"]
    wrong: list[tuple[str, Any]] = [
        ("rounds", 10**12), ("rounds", -3), ("classes", 10**9), ("classes", 1),
        ("clients", [*lines["clients"], lines["clients"][0]]),
        ("sums", [{**one, "row": {**row, "keys": [999 + k for k in range(len(row["keys"]))]}}]),
        ("sums", [{**one, "row": {**row, "values": [float("nan")] * len(row["keys"])}}]),
    ]  # fmt: skip
    for name, value in wrong:
        (folder / "recording.json").write_text(json.dumps({**plain, "lines": {**lines, name: value}}))
        assert "cannot be read" in refused(resigned(folder)), (name, value)
    both = {**lines, "classes": 10**9, "truth": {**lines["truth"], "classes": 10**9}}
    (folder / "recording.json").write_text(json.dumps({**plain, "lines": both}))
    assert "1000000000 classes" in refused(resigned(folder))


def test_what_is_no_regular_file_is_not_read(saved: Path, tmp_path: Path) -> None:
    for name in FILES:
        folder = copied(saved, tmp_path / name)
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        assert name in refused(folder)
    folder = copied(saved, tmp_path / "pipe")
    (folder / FILES[0]).unlink()
    os.mkfifo(folder / FILES[0])
    assert "no regular file" in refused(folder)


def test_frames_that_claim_more_than_is_there_are_refused(saved: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = copied(saved, tmp_path / "long")
    arrays = load_file(folder / "frames.safetensors")
    for change in (lambda end: end + 2**40, lambda end: -end, lambda end: end[:-1], lambda end: end.astype(np.float64)):
        save_file({**arrays, "end": change(arrays["end"])}, folder / "frames.safetensors")
        assert "cannot be read" in refused(resigned(folder))
    save_file({**arrays, "kind": arrays["kind"] + 1000}, folder / "frames.safetensors")
    assert "of no kind" in refused(resigned(folder))
