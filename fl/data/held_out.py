"""Which of a client's own records are held out to score models by: by their places alone, whatever is in them.

A split by labels redraws many records when one of them gets another label, so that noise for one record that is trained on would
be no noise for one record of the file. Here who replaces a row of a table changes that one, in one part or the other, and nothing
else. Pictures lie in a folder for each label, in that order: one that gets another label, and a row that is added or left out,
still moves others.
"""

import numpy as np
from numpy.typing import NDArray

SEED = 0
"""Of the split: every run has the same."""


def by_place(whose: NDArray[np.int64], test_share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending positions of the training and of the test records. whose: int64 (n,), of each record its client.

    Of each client `test_share` of the records, rounded: its records in order are cut into so many stretches of equal length, and
    one of each is drawn, so that records that lie sorted, or come and go in turns, are in both parts.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"a test share of {test_share} leaves nothing to train or to test on; choose one between 0 and 1")
    held_out = np.zeros(len(whose), dtype=bool)
    for client in np.unique(whose):
        places = np.flatnonzero(whose == client)
        count = round(test_share * len(places))
        ends = np.linspace(0, len(places), count + 1).round().astype(np.int64)
        drawn = np.random.default_rng((SEED, len(places))).random(count)
        held_out[places[(ends[:-1] + drawn * np.diff(ends)).astype(np.int64)]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
