"""Attacks on `Permuted` at the size that their figures are known for; `python -m tests.permuted_figures` prints them."""

import os

import pytest

from .permuted_figures import figures


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.skipif("CLOISTER_DATA" not in os.environ, reason="CLOISTER_DATA does not name a folder of real data sets")
def test_every_figure_is_what_is_expected() -> None:
    found = list(figures())
    assert len(found) > 70
    assert [str(figure) for figure in found if not figure.holds] == []
