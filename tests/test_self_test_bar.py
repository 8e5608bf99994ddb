"""The bar of the self-test of auditors knows how many audits there are, so that it ends at its end."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cloister.auditing import self_test
from cloister.threat_models.privacy.self_test import Row


@pytest.fixture
def two_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mechanisms `one` and `two`, each with a fault, whose audits cost nothing."""

    def audited(mechanism: Any, fault: str | None, auditor: Any, trials: int, seed: int, confidence: float) -> Row:
        return Row(mechanism.name, fault, auditor, seed, 1.0, 2.0 if fault else 0.5, confidence, 1e-5, "record")

    makers = tuple(lambda name=name: SimpleNamespace(name=name, auditor="x") for name in ("one", "two"))
    faults = tuple(
        SimpleNamespace(mechanism=of, name=name, auditor="x", times=1, injected=nullcontext)
        for of, name in (("one", "none"), ("one", "half"), ("two", "none"))
    )
    monkeypatch.setattr(self_test, "named", lambda only, all_: (makers, faults))
    monkeypatch.setattr("cloister.threat_models.privacy.self_test._audited", audited)


@pytest.mark.usefixtures("two_mechanisms")
@pytest.mark.parametrize("budget", ["quick", "full"])
def test_the_last_audit_is_number_all_of_all(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    @contextmanager
    def shown(*given: Any, **more: Any) -> Iterator[Any]:
        yield lambda what, done, total, note: told.append((done, total))

    monkeypatch.setattr(self_test, "shown", shown)
    self_test.play_self_test(budget, True)
    assert [done for done, _ in told] == [*range(1, len(told) + 1)]
    assert {total for _, total in told} == {len(told)}


@pytest.mark.usefixtures("two_mechanisms")
def test_a_log_has_a_line_for_each_mechanism_that_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was written to a log until the end, which is minutes."""
    self_test.play_self_test("quick", False)
    first, *done = capsys.readouterr().err.splitlines()
    assert "2 mechanisms as shipped, and 3 faults put into them: 7 audits; all that quick has take about" in first
    assert done == [
        "cloister: 2 of 7 audits done: one, as shipped: as it should be",
        "cloister: 4 of 7 audits done: two, as shipped: as it should be",
        "cloister: 6 of 7 audits done: one, with 2 faults: as it should be",
        "cloister: 7 of 7 audits done: two, with 1 fault: as it should be",
    ]


@pytest.mark.usefixtures("two_mechanisms")
def test_for_a_program_nothing_is_written_beside_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    self_test.play_self_test("quick", True)
    assert capsys.readouterr().err == ""
