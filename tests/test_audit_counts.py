"""Numbers of samples: whose are sought, and what is found of them, is by the clients of the run that is audited."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloister.protocol import Masked
from cloister.threat_models.audit.counts import SampleCounts
from cloister.threat_models.audit.experiment import QUICK, Finding
from cloister.threat_models.audit.observer import SERVER_ALONE, Observer
from cloister.threat_models.audit.view import PublishedSum

UNLIKE = {0: 36, 1: 48, 2: 55, 3: 64}


def sought(counts: Mapping[int, int], clients: tuple[int, ...] = (), parts: tuple[tuple[int, ...], ...] = ()) -> Finding:
    """By the server, or by clients alone, whose own run is of clients with 50 samples each. parts: in which all end."""

    def of(counts: Mapping[int, int]) -> Any:
        return SimpleNamespace(
            population=SimpleNamespace(clients={i: SimpleNamespace(train=range(n)) for i, n in counts.items()})
        )

    observer = Observer(clients=frozenset(clients)) if clients else SERVER_ALONE
    public = SimpleNamespace(protection=Masked(), kinds={}, clients=tuple(counts))
    rows = [counts.keys(), *(counts.keys() - {i} for i in counts)] if not clients else []
    sums = [
        PublishedSum(t, "0", "update", dict.fromkeys(row, 1.0), True, "server", float(sum(counts[i] for i in row)))
        for t, row in enumerate(rows)
    ]
    held = {i: SimpleNamespace(examples=range(counts[i])) for i in clients}
    view = SimpleNamespace(public=public, observer=observer, sums=sums, held=held, frames=(), compared=(), tasks={})
    parts = parts or (tuple(counts),)
    last = [PublishedSum(9, str(k), "update", dict.fromkeys(part, 1.0), True, "server") for k, part in enumerate(parts)]
    evidence: Any = SimpleNamespace(view=view, known=of(dict.fromkeys(counts, 50)), sums=SimpleNamespace(sums=last))
    return SampleCounts()(evidence, of(counts), QUICK, np.random.default_rng(0))


def test_they_are_sought_where_the_attackers_own_clients_all_have_as_many() -> None:
    """Before: "not tried: all clients have as many samples", of 36 to 64."""
    assert sought(UNLIKE).values == pytest.approx(np.ones(4), abs=1e-3)
    alike = sought(dict.fromkeys(UNLIKE, 50))
    assert (alike.victims, alike.why) == ((), "all clients of a cluster have as many samples")


def test_a_number_that_is_near_the_others_is_not_known_for_that() -> None:
    """Before: by the mean of those that are not corrupt, so that client 1, who is told nothing, "knew" some wholly."""
    chance = 1 - np.square([n - np.mean([*UNLIKE.values()]) for n in UNLIKE.values()]) / np.var([*UNLIKE.values()])
    for clients in ((0,), (1,), (1, 2), (0, 1, 2)):
        found = sought(UNLIKE, clients)
        assert found.values == pytest.approx(chance[[*found.victims]])


def test_what_a_cluster_has_in_all_is_published_and_no_part_of_it() -> None:
    """Before: after a split the totals of two clusters of unlike sizes were told as what the server knows of single clients."""
    assert sought({0: 40, 1: 40, 2: 80, 3: 80}, parts=((0, 1), (2, 3))).why.startswith("all clients of a cluster")
    apart = sought({0: 30, 1: 50, 2: 80, 3: 90, 4: 70}, (4,), parts=((0, 1), (2, 3), (4,)))
    assert apart.victims == (0, 1, 2, 3)
    assert np.mean(apart.values) == pytest.approx(1 - 250 / 4 / (250 / 5)), "nothing is told, and one is alone"
