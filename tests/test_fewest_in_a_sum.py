"""How many clients have to be there for a sum: what `join --check` prints."""

from dataclasses import replace

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
