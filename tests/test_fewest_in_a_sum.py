"""How many clients have to be there for a sum: what `join --check` prints."""

from dataclasses import replace
from pathlib import Path

import pytest

from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.fl.runs.feasibility import fewest_in_a_sum

SCENARIO = Scenario(
    name="five",
    data=data.Digits(),
    partition=partitions.Iid(clients=5),
    model=models.Mlp(),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Masked(),
    rounds=1,
)


@pytest.mark.parametrize(
    ("protection", "fewest"),
    [
        (protections.Masked(), 3),
        (protections.Masked(floor=2, corrupt=1), 5),  # masks of 3 or 4 could not be opened with a quarter silent
        (protections.Plain(), 0),
    ],
)
def test_it_is_the_floor_and_more_where_masks_have_to_be_opened(protection: object, fewest: int) -> None:
    assert fewest_in_a_sum(replace(SCENARIO, protection=protection)) == fewest


def test_the_numbers_of_the_how_to_are_these() -> None:
    page = " ".join((Path(__file__).parents[1] / "docs" / "how-to" / "choose-a-protection.md").read_text().split())
    assert "for a floor of 3 it is 5, 6 and 9 with c = 1, 2 and 3, and 13 with 5, as `dropped` is 0.25 by default" in page
    assert "with `dropped=0.1` it is `floor` + c for all of these" in page
    for corrupt, most, least in ((1, 5, 4), (2, 6, 5), (3, 9, 6), (5, 13, 8)):
        masked = protections.Masked(corrupt=corrupt)
        assert fewest_in_a_sum(replace(SCENARIO, protection=masked)) == most
        assert fewest_in_a_sum(replace(SCENARIO, protection=replace(masked, dropped=0.1))) == least
