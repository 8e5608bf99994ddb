"""A recorded run that was saved and loaded is the run that was played; what is damaged is refused in one line."""

import hashlib
import json
import os
import tracemalloc
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
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
from cloister.fl.algorithms.fl_detector import FLDetector
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
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.audit.clouds import models_shown
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


def test_inner_products_with_earlier_updates_are_of_whom_they_say() -> None:
    recorder = Recorder(replace(BASE, algorithm=FLDetector(window=1), protection=Plain(), validation=0.3), None)
    list(recorder.rounds())
    run = recorder.recorded
    update = {(t, i): x.astype(np.float64) for (t, _, i), x in run.truth.updates.items()}
    known = [c for c in run.compared if c.asked == "gram_with"]
    assert known
    for c in run.compared:
        assert c.matrix.shape == (len(c.rows), len(c.columns))
        assert c.gram == (c.asked in ("gram", "gram_with"))
        if c.gram and c.origin:
            x = np.stack([update[c.round, i] for i in c.rows])
            assert np.allclose(c.matrix, x @ x.T, rtol=1e-4)
    crossed = [c for c in run.compared if c.asked == "with earlier" and c.rows == c.columns and len(c.rows) > 1]
    for c in crossed:
        now, before = (np.stack([update[t, i] for i in c.rows]) for t in (c.round, c.round - 1))
        assert np.allclose(c.matrix, now @ before.T, rtol=1e-4, atol=1e-6)
    assert crossed


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


@pytest.mark.long
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


@pytest.mark.long
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


def test_what_lost_a_part_is_refused(saved: Path, tmp_path: Path) -> None:
    """Hashes and all: experiments would find less than there was, and say that nothing is refuted."""
    plain = json.loads((saved / "recording.json").read_text())
    folder, lines = copied(saved, tmp_path / "lost"), plain["lines"]
    one, gram, truth = lines["sums"][0], lines["compared"][0], lines["truth"]
    keys = lines["mask_keys"]
    lost: list[tuple[str, Any, str]] = [
        ("truth", {**truth, "updates": truth["updates"][1:]}, "lacks updates"),
        ("truth", {**truth, "updates": [*truth["updates"], truth["updates"][0]]}, "listed twice"),
        ("starts", lines["starts"][:-1], "lacks updates"),
        ("frame_kinds", lines["frame_kinds"][::-1], "and is said to be a"),
        ("mask_keys", {"keys": keys["keys"][1:], "values": keys["values"][1:]}, "lacks keys of masks"),
        ("sums", [{**one, "round": 99}], "of round 99"),
        ("sums", [{**one, "kind": "gradient"}], "lacks the update of client"),
        ("compared", [{**gram, "columns": gram["columns"][1:]}], "has shape (8, 8)"),
        ("compared", [{**gram, "round": -1}], "of round -1"),
        ("released", {"keys": [99], "values": lines["released"]["values"][:1]}, "clients that the run does not have"),
        ("groups", lines["groups"][1:], "public examples"),
        ("changed", [[10**6, 0]], "in the place of none"),
    ]
    for name, value, words in lost:
        (folder / "recording.json").write_text(json.dumps({**plain, "lines": {**lines, name: value}}))
        assert words in refused(resigned(folder)), name
    for name in ("foreign", "mask_keys", "opened", "apart", "changed"):
        (folder / "recording.json").write_text(json.dumps({**plain, "lines": {k: v for k, v in lines.items() if k != name}}))
        assert name in refused(resigned(folder))


def test_what_a_key_does_not_open_is_shown_to_nobody() -> None:
    recorded = played("pairs")
    one = Observer(clients=frozenset({0}))
    assert models_shown(recorded.seen_by(one))
    keys = {i: {digest: key[::-1] for digest, key in of.items()} for i, of in recorded.pair_keys.items()}
    assert not models_shown(replace(recorded, pair_keys=keys).seen_by(one))


def test_frames_that_are_missing_are_noticed(saved: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = copied(saved, tmp_path / "gap")
    arrays = load_file(folder / "frames.safetensors")
    first, rest = int(arrays["end"][0]), slice(1, None)
    cut = {k: v for k, v in arrays.items() if k.startswith("arrived ")}
    cut |= {k: np.ascontiguousarray(arrays[k][rest]) for k in ("number", "sender", "receiver", "kind", "late")}
    cut |= {"end": arrays["end"][rest] - first, "data": np.ascontiguousarray(arrays["data"][first:])}
    save_file(cut, folder / "frames.safetensors")
    assert "frames are missing" in refused(resigned(folder))


def test_examples_that_would_take_more_than_the_files_are_refused(saved: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    plain = json.loads((saved / "recording.json").read_text())
    folder, lines = copied(saved, tmp_path / "large"), plain["lines"]
    for shape in ([10**9, 10**9], [-1], []):
        (folder / "recording.json").write_text(
            json.dumps({**plain, "lines": {**lines, "truth": {**lines["truth"], "shape": shape}}})
        )
        assert "examples of shape" in refused(resigned(folder))
    truth = {**lines["truth"], "classes": 2**20}
    (folder / "recording.json").write_text(json.dumps({**plain, "lines": {**lines, "classes": 2**20, "truth": truth}}))
    assert "parameters, and not 910" in refused(resigned(folder))
    (folder / "recording.json").write_text(json.dumps(plain))
    arrays = load_file(folder / "truth.safetensors")
    labels = {k: v + 10 if v.dtype == np.int64 and v.ndim == 1 else v for k, v in arrays.items()}
    save_file(labels, folder / "truth.safetensors")
    assert "labels that are none of 10" in refused(resigned(folder))


@pytest.mark.parametrize("how", ["cut", "nan", "huge"])
@pytest.mark.parametrize("what", ["mean", "update", "start"])
def test_vectors_that_no_run_goes_on_with_are_refused(saved: Path, tmp_path: Path, what: str, how: str) -> None:
    """Experiments would end in an error of theirs, in the middle of an audit."""
    from safetensors.numpy import load_file, save_file

    lines = json.loads((saved / "recording.json").read_text())["lines"]
    name = {
        "mean": lines["sums"][0]["mean"],
        "update": lines["truth"]["updates"][0]["vector"],
        "start": lines["starts"][-1]["vector"],
    }[what]
    file = "truth.safetensors" if what == "update" else "seen.safetensors"
    folder = copied(saved, tmp_path / "vectors")
    arrays = load_file(folder / file)
    arrays[name] = {
        "cut": arrays[name][:-5].copy(),
        "nan": arrays[name] * np.float32(np.nan),
        "huge": arrays[name] + np.float32(1e30),
    }[how]
    save_file(arrays, folder / file)
    assert {"cut": "numbers", "nan": "not finite", "huge": "too large"}[how] in refused(resigned(folder))


def test_a_file_that_says_it_is_longer_than_memory_takes_none(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path / "sparse")
    tracemalloc.start()
    try:
        with open(folder / "truth.safetensors", "ab") as file:
            file.truncate(2**28)
        assert "truth.safetensors was changed" in refused(folder)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_run_over_a_faulty_network_is_whole(tmp_path: Path) -> None:
    scenario = replace(BASE, faults=Spoiling())
    recorder = Recorder(scenario, None)
    assert list(recorder.rounds()) == [1, 2, 3]
    assert len(recorder.recorded.arrived) > 3
    save(recorder.recorded, tmp_path / "recording")
    assert same(recorder.recorded.arrived, load(tmp_path / "recording", scenario).arrived)


@dataclass(frozen=True)
class Spoiling:
    """A network that loses inputs to sums of client 2, delivers those of client 3 twice, and those of client 4 late."""

    def __call__(self, frame: Frame, /) -> list[Frame]:
        came = {2: [], 3: [frame, frame], 4: [replace(frame, late=True)]}
        return came.get(frame.sender, [frame]) if frame.kind == "MaskedInput" else [frame]


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
