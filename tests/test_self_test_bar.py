"""The bar of the self-test of auditors knows how many audits there are, so that it ends at its end."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cloister.auditing import self_test
from cloister.threat_models.privacy.self_test import Row


@pytest.mark.parametrize("budget", ["quick", "full"])
def test_the_last_audit_is_number_all_of_all(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    @contextmanager
    def shown(*given: Any, **more: Any) -> Iterator[Any]:
        yield lambda what, done, total, note: told.append((done, total))

    def audited(mechanism: Any, fault: str | None, auditor: Any, trials: int, seed: int, confidence: float) -> Row:
        return Row(mechanism.name, fault, auditor, seed, 1.0, 2.0 if fault else 0.5, confidence, 1e-5, "record")

    makers = tuple(lambda name=name: SimpleNamespace(name=name, auditor="x") for name in ("one", "two"))
    faults = tuple(
        SimpleNamespace(mechanism="one", name=name, auditor="x", times=1, injected=nullcontext) for name in ("none", "half")
    )
    monkeypatch.setattr(self_test, "shown", shown)
    monkeypatch.setattr(self_test, "named", lambda only, all_: (makers, faults))
    monkeypatch.setattr("cloister.threat_models.privacy.self_test._audited", audited)
    self_test.play_self_test(budget, True)
    assert [done for done, _ in told] == [*range(1, len(told) + 1)]
    assert {total for _, total in told} == {len(told)}
