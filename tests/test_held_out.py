"""Which records are held out depends on their places alone."""

import numpy as np
import pytest
import torch

from cloister.fl.data.gathered import source_of
from cloister.fl.data.held_out import by_place


def parts(y, whose, share=0.2):
    x = np.arange(len(y), dtype=np.float32).reshape(-1, 1)
    found = source_of("t", x, y, whose, share)
    return {name: {*part.x[:, 0].int().tolist()} for name, part in (("train", found.train), ("test", found.test))}


def test_one_record_that_is_replaced_moves_no_other_between_training_and_testing():
    """Before: a share of every label was held out, and one new label moved 8 to 41 of 310 records."""
    rng = np.random.default_rng(1)
    y, whose = rng.integers(0, 2, 310).tolist(), [f"c{i % 3}" for i in range(310)]
    before = parts(y, whose)
    for row in range(0, 310, 7):
        assert parts([1 - label if at == row else label for at, label in enumerate(y)], whose) == before


@pytest.mark.parametrize("share", [0.1, 0.2, 0.34, 0.5, 0.9])
@pytest.mark.parametrize("count", [2, 3, 5, 10, 11, 97, 1000])
def test_the_share_is_kept_in_every_client_and_in_every_stretch(count, share):
    whose = np.repeat([4, 9], [count, 2 * count])
    train, test = by_place(whose, share)
    assert sorted([*train, *test]) == [*range(3 * count)]
    assert np.all(np.diff(train) > 0)
    assert np.all(np.diff(test) > 0)
    assert [int((whose[test] == client).sum()) for client in (4, 9)] == [round(share * count), round(share * 2 * count)]
    first = test[test < count]
    assert all(abs(int((first < end).sum()) - share * end) <= 1.5 for end in range(count))


def test_labels_that_lie_sorted_are_in_both_parts():
    y = [0] * 50 + [1] * 25 + [2] * 25
    found = source_of("t", np.zeros((100, 1), np.float32), y, ["c"] * 100, 0.2)
    assert torch.bincount(found.test.y).tolist() == [10, 5, 5]


def test_others_records_say_nothing_of_ones_own():
    one = by_place(np.array([0] * 20), 0.2)[1]
    among = by_place(np.array([1] * 7 + [0] * 20 + [2] * 3), 0.2)[1]
    assert [*one] == [place - 7 for place in among if 7 <= place < 27]


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(share):
    with pytest.raises(ValueError, match="test share"):
        by_place(np.zeros(10, np.int64), share)
