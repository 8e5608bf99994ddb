"""Published numbers beside ours: bands by their rule, verdicts, and made-up runs whose line is known."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .example_files import load


@pytest.fixture(scope="module")
def published() -> ModuleType:
    return load("published_results")


@pytest.fixture(scope="module")
def tables(published: ModuleType) -> ModuleType:
    """What is printed, as the file beside the runs has it."""
    found: ModuleType = published.published_tables
    return found


def runs_of(published: ModuleType, **changes: float) -> dict[str, Any]:
    """Runs that are exactly as the papers print them, but for the best accuracy of those that are named."""
    tables = published.published_tables
    made: dict[str, Any] = {"flic_fedavg_0": {"best": tables.CLEAN}}
    for (row, attackers), (accuracy, _) in tables.TABLE_II.items():
        name = f"flic_{row}_{attackers}"
        made[name] = {"best": 0.0, "best_of_loyal_clusters": 0.0}
        made[name]["best_of_loyal_clusters" if row == "flic" else "best"] = changes.get(name, accuracy)
    for method, (clean, turned, index) in tables.TABLE_8.items():
        made[f"emd_{method}"] = {"clean": clean / 100, "backdoor": turned / 100, "ari": 0.0 if index is None else index}
    return made


def verdicts(published: ModuleType, runs: dict[str, Any], quick: bool = True) -> dict[str, str]:
    made = published.lines({0: runs}, quick)
    return {f"{line.published.place[2]}, {line.published.place[1]}, {line.published.place[3]}": line.verdict for line in made}


def test_the_papers_own_numbers_pass_and_one_that_says_nothing_is_open(published: ModuleType) -> None:
    for quick in (True, False):
        found = verdicts(published, runs_of(published), quick)
        assert found.pop("median, minus gradient, 40 of 100, left") == "open"
        assert set(found.values()) == {"pass"}
        assert len(found) == 11 + 5 + 4 + 4


@pytest.mark.parametrize(("ours", "verdict"), [(0.99, "pass"), (0.82, "pass"), (0.79, "FAIL"), (0.1, "FAIL")])
def test_a_number_outside_of_its_band_fails(published: ModuleType, ours: float, verdict: str) -> None:
    found = verdicts(published, runs_of(published, flic_fedavg_30=ours))  # no reason is known for this place
    assert found["FedAvg, minus gradient, 30 of 100, left"] == verdict
    assert list(found.values()).count("FAIL") == (verdict == "FAIL")


def test_a_share_is_of_what_the_same_scale_learns_without_attack(published: ModuleType, tables: ModuleType) -> None:
    runs = runs_of(published) | {"flic_fedavg_0": {"best": 0.5}, "flic_median_30": {"best": 0.3}}
    assert tables.left("median", 30)(runs) == pytest.approx(0.5)
    assert tables.left("flic", 30)(runs | {"flic_flic_30": {"best_of_loyal_clusters": None}}) == pytest.approx(-0.25)


def test_bands_follow_from_what_is_printed(tables: ModuleType) -> None:
    band = tables.Band
    assert band.left(0.9, 0.01, True) == band(0.75, 1.05)
    assert band.left(0.9, 0.2, False) == band(0.5, 1.3)
    assert band.lost(9.0).low == 2.0
    assert band.lost(9.0).high == 28.0
    assert band.lost(-3.0).low == -4.0
    assert band.lost(-3.0).high == -2.0
    assert band.index(1.0).verdict(0.79) == "FAIL"
    assert band.index(1.0).verdict(1.0) == "pass"


def test_a_failure_ends_with_an_exit_code_unless_it_has_a_reason(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = published.published_tables
    for name, run in runs_of(published, flic_median_60=0.9).items():
        (tmp_path / f"quick_{name}_seed_0.json").write_text(json.dumps(run))
    monkeypatch.setattr(sys, "argv", ["published_results.py", "--quick", "--table", "--seeds", "0", "--out", str(tmp_path)])
    monkeypatch.setattr(tables, "WHY", {})
    with pytest.raises(SystemExit, match="1"):
        published.main()
    assert "25 published numbers: 23 pass, 1 FAIL, 1 open." in capsys.readouterr().out
    place = (tables.FLIC, "*", "median", "left")
    monkeypatch.setattr(tables, "WHY", {(place, "below"): "a smaller net"})
    with pytest.raises(SystemExit, match="1"):  # it is above: no reason of the other side explains it
        published.main()
    assert "23 pass, 1 FAIL, 1 open." in capsys.readouterr().out
    monkeypatch.setattr(tables, "WHY", {(place, "above"): "a smaller net"})
    published.main()
    said = capsys.readouterr().out
    assert "- minus gradient, 60 of 100, median: a smaller net." in said
    assert "25 published numbers: 23 pass, 1 explained, 1 open." in said


def test_the_reasons_there_are_explain_neither_the_other_side_nor_what_is_no_number(published: ModuleType) -> None:
    """Before: FLIC at 60 attackers far above its band, and a method of which nothing is known, were explained."""
    runs = runs_of(published, flic_flic_60=1.3) | {"emd_CFL": {"clean": float("nan"), "backdoor": 0.0, "ari": -0.05}}
    found = verdicts(published, runs)
    assert found["FLIC, minus gradient, 60 of 100, left"] == "FAIL"
    where = "CFL, a feature that tells the label, Backdoor MNIST"
    assert [found[f"{where}, {measure}"] for measure in ("lost", "index")] == ["FAIL", "explained"]


def test_what_is_missing_is_not_played_with_table(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["published_results.py", "--quick", "--table", "--seeds", "0", "--out", str(tmp_path)])
    published.main()
    assert "25 published numbers: 25 not played." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_named(published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quick_flic_fedavg_0_seed_0.json").write_text('{"best"')
    monkeypatch.setattr(sys, "argv", ["published_results.py", "--quick", "--table", "--seeds", "0", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"quick_flic_fedavg_0_seed_0\.json is damaged .*; delete it"):
        published.main()
