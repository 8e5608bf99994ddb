"""An audit that was stopped goes on from its folder, and comes to the same."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister import cli
from cloister.auditing import audited as auditing
from cloister.auditing.folder import PLAYING
from cloister.grids import ahead
from cloister.threat_models.audit.experiment import QUICK, Examined, Finding
from cloister.threat_models.audit.floor_kept import FloorKept
from cloister.threat_models.audit.kept import NOTHING_KEPT, Kept, kept_in
from cloister.threat_models.audit.membership import MembershipInference
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import stages

from .test_audit_masks import MASKED, small

FOUND = Finding(
    (2, 5), np.array([0.1, 1 / 3]), np.array([1.5]), np.array([-np.inf, 2.0]), {"dB": float("inf")}, {"words": "w"},
    {2: (3, 60)}, Examined("", "all", ""), "seen", np.array([0.2, 0.3]),
)  # fmt: skip
SPEND = replace(QUICK, victims=3, records=20, steps=5, shadows=4)
TRIED = (UpdateRecovery(), MembershipInference(), FloorKept())


def never() -> Any:
    raise AssertionError("it is known")


def as_found(one: Finding) -> dict[str, Any]:
    names = ("victims", "figures", "pictures", "records", "examined", "noticed")
    return {name: getattr(one, name) for name in names} | {
        n: getattr(one, n).tolist() for n in ("values", "members", "others", "moves")
    }


def test_what_a_try_found_is_read_as_it_was(tmp_path: Path) -> None:
    asked = {"scenario": "s", "budget": {"victims": 3}}
    first = kept_in(tmp_path / "p", asked, resume=False)
    assert first.finding("a", lambda: FOUND) is FOUND
    del first
    again = kept_in(tmp_path / "p", asked, resume=True)
    assert as_found(again.finding("a", never)) == as_found(FOUND)
    assert again.finding("b", lambda: FOUND) is FOUND
    with pytest.raises(ValueError, match="was begun with another budget; choose another folder"):
        kept_in(tmp_path / "p", {**asked, "budget": {"victims": 4}}, resume=True)
    (tmp_path / "p/asked.json").write_text("{")
    with pytest.raises(ValueError, match=r"asked\.json is missing, or damaged"):
        kept_in(tmp_path / "p", asked, resume=True)
    assert NOTHING_KEPT.finding("a", lambda: FOUND) is FOUND


class Stopped(BaseException):
    """What no attack is guarded from."""


def audited(into: Path | None, resume: bool = False) -> dict[str, Any]:
    whom = (SERVER_ALONE, server_and(0))
    scenario = small(MASKED, clients=8, rounds=2)
    found = auditing.audited(
        scenario, SPEND, (0,), None, quiet=True, against=whom, experiments=TRIED, always=False, into=into, resume=resume
    )
    return json.loads(json.dumps({name: found[name] for name in ("rows", "meters", "run", "data_sha256")}))


@pytest.mark.trains
@pytest.mark.long
def test_an_audit_that_is_stopped_twice_comes_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its second run, and in its attacks: nothing that was done is done again."""
    whole = audited(None)
    plays, tries, left = [], [], [2, 7]
    run, finding = Kept.run, Kept.finding

    def played(self: Kept, name: str, scenario: Any, play: Any) -> Any:
        def counted() -> Any:
            if len(plays) == left[0]:
                raise Stopped
            plays.append(name)
            return play()

        return run(self, name, scenario, counted)

    def tried(self: Kept, key: str, find: Any) -> Any:
        def counted() -> Any:
            if len(tries) == left[1]:
                raise Stopped
            tries.append(key)
            return find()

        return finding(self, key, counted)

    monkeypatch.setattr(Kept, "run", played)
    monkeypatch.setattr(Kept, "finding", tried)
    with pytest.raises(Stopped):
        audited(tmp_path)
    assert (len(plays), len(tries)) == (2, 0)
    left[0] = 99
    with pytest.raises(Stopped):
        audited(tmp_path, resume=True)
    assert (len(plays), len(tries)) == (4, 7)
    left[1] = 99
    assert audited(tmp_path, resume=True) == whole
    assert len(plays) == len({*plays}) == 4
    assert len(tries) == len({*tries}) > 10


def test_what_a_stopped_audit_was_begun_with_and_is_not_asked_for_now_is_said(tmp_path: Path) -> None:
    begun = {"against": ["server", "server+client:0"], "attack": ["mine"]}
    assert kept_in(tmp_path, {"scenario": 1}, False, begun).left_out == {}
    assert kept_in(tmp_path, {"scenario": 1}, True, begun).left_out == {}
    fewer = {"against": ["server"], "attack": []}
    assert kept_in(tmp_path, {"scenario": 1}, True, fewer).left_out == {"against": ["server+client:0"], "attack": ["mine"]}
    assert kept_in(tmp_path, {"scenario": 1}, True, begun).left_out == {}
    with pytest.raises(ValueError, match="begun with another scenario"):
        kept_in(tmp_path, {"scenario": 2}, True, begun)


@pytest.mark.trains
def test_a_kept_run_that_is_damaged_is_said(tmp_path: Path) -> None:
    kept = kept_in(tmp_path, {}, resume=False)
    scenario = small(MASKED, clients=8, rounds=2)
    assert len([*stages(scenario, [0], None, kept=kept)]) == 5
    file = tmp_path / "seed 0, the run" / "truth.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"seed 0, the run is damaged: truth\.safetensors was changed"):
        [*stages(scenario, [0], None, kept=kept)]


def test_a_folder_with_a_stopped_audit_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["cloister", "audit", "cloister:quickstart", "--out", str(tmp_path / "a"), *words])
        with pytest.raises(SystemExit):
            cli.main()
        return capsys.readouterr().err

    assert "holds no audit that was stopped; leave out --resume" in said("--resume")
    (tmp_path / "a" / PLAYING).mkdir(parents=True)
    assert "holds an audit that was stopped; go on with it by --resume" in said()
    for command in ("audit", "report"):
        (tmp_path / "a" / PLAYING / "asked.json").write_text("{")
        monkeypatch.setattr(sys, "argv", ["cloister", command, str(tmp_path / "a")])
        with pytest.raises(SystemExit):
            cli.main()
        assert "holds an audit that was stopped: the command that began it goes on with --out" in capsys.readouterr().err
    assert "asked.json is missing, or damaged; choose another folder" in said("--resume")
    (tmp_path / "a/audit.json").write_text("{}")
    assert "already holds an audit that is over: there is nothing to go on with" in said("--resume")


@pytest.mark.trains
def test_while_runs_are_played_it_says_how_long_they_may_take(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Before the first of them is over: under encryption one takes minutes."""
    monkeypatch.setattr(ahead, "SHORT", 0.0)
    told: list[str] = []

    def stopped(self: Kept, name: str, scenario: Any, play: Any) -> Any:
        play()
        told.append(capsys.readouterr().err)
        raise Stopped

    monkeypatch.setattr(Kept, "run", stopped)
    with pytest.raises(Stopped):
        auditing.audited(small(MASKED, clients=8, rounds=4), SPEND, (0, 1), None, against=(SERVER_ALONE,), experiments=TRIED)
    assert "the first 4 took" in told[0]
    assert "the other 28 rounds of its runs take at most about" in told[0]
