"""Whole runs go over the links as they were recorded: nothing moves that no commit names."""

import json

import pytest

from cloister.protocol.view.disclosure import ROSTER

from .golden_runs import PROTECTIONS, algorithm_for, file_of, fitting, played

CASES = [pytest.param(a, p, marks=pytest.mark.slow if (a, p) == ("cfl", "encrypted") else ()) for a, p in fitting()]


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "protection"), CASES)
def test_a_run_is_as_it_was_recorded(algorithm: str, protection: str) -> None:
    recorded = [json.loads(line) for line in file_of(algorithm, protection).read_text(encoding="utf-8").splitlines()]
    found = [json.loads(json.dumps(line)) for line in played(algorithm_for(algorithm, protection), PROTECTIONS[protection])]
    for before, now in zip(recorded, found, strict=True):
        for part, said in before.items():
            assert now[part] == said, f"{part} of round {now.get('round', 'none')}"
        assert now.keys() == before.keys()


def test_recordings_say_something() -> None:
    """Each has splits or communities, a round with a loss, and hashes."""
    for algorithm, protection in fitting():
        text = file_of(algorithm, protection).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        assert len(lines[-1]["clusters"]) > 1
        assert "sha256" in text
        whole, lossy = ({i for e in lines[t + 1]["log"] if e[1] != ROSTER for i in e[2]} for t in (1, 2))
        assert 5 not in lossy, "the client that is lost in round 2"
        assert 5 in whole or algorithm == "flic"
