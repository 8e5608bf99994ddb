"""From edges to clusters: known answers, broken cliques among them, and what a tolerance must do."""

import io
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from cloister.fl.emd.calibration import excess, from_distances, from_references, from_replicates
from cloister.fl.emd.clusters import adjacency, components, majorities, neighbourhoods
from cloister.fl.emd.figure import distance_figure
from cloister.fl.runs.metrics import adjusted_rand_index

Array = NDArray[np.float64]


def edges(*pairs: tuple[int, int]) -> dict[tuple[int, int], bool]:
    """Both directions of every pair."""
    return {(first, second): True for pair in pairs for first, second in (pair, pair[::-1])}


def test_cliques_are_clusters_by_either_rule() -> None:
    joined = adjacency(edges((0, 1), (0, 2), (1, 2), (3, 5)), range(6))
    assert neighbourhoods(joined, range(6)) == components(joined, range(6)) == ((0, 1, 2), (3, 5), (4,))


def test_a_broken_clique_falls_apart_as_printed_and_holds_by_components() -> None:
    joined = adjacency(edges((0, 1), (0, 2)), range(3))
    assert neighbourhoods(joined, range(3)) == ((0,), (1,), (2,))
    assert components(joined, range(3)) == ((0, 1, 2),)
    four = adjacency(edges((0, 1), (0, 2), (0, 3), (1, 2), (1, 3)), range(4))  # no 2-3: 0 and 1 have the same neighbours
    assert neighbourhoods(four, range(4)) == ((0, 1), (2,), (3,))


def test_a_lost_self_edge_changes_nothing() -> None:
    lost = {**edges((0, 1), (0, 2), (1, 2)), (0, 0): False}
    joined = adjacency(lost, range(4))
    assert joined.diagonal().all()
    assert neighbourhoods(joined, range(4)) == ((0, 1, 2), (3,))
    # without the forced diagonal the card's cluster of 0 would be torn off
    joined[0, 0] = 0
    with pytest.raises(ValueError, match="diagonal"):
        neighbourhoods(joined, range(4))


def test_either_side_can_refuse() -> None:
    refused = {**edges((0, 1), (1, 2), (0, 2)), (2, 0): False, (2, 1): False}
    assert neighbourhoods(adjacency(refused, range(3)), range(3)) == ((0, 1), (2,))
    assert neighbourhoods(adjacency({(0, 1): True}, range(2)), range(2)) == ((0,), (1,))  # the other never answered


def test_clients_are_named_by_their_ids() -> None:
    joined = adjacency(edges((7, 2)), (9, 7, 2))
    assert neighbourhoods(joined, (9, 7, 2)) == ((9,), (7, 2))
    for wrong in ((7, 2, 7), (7, 1)):
        with pytest.raises(ValueError, match=r"twice|listed"):
            adjacency(edges((7, 2)), wrong)
    with pytest.raises(ValueError, match="int8 matrix"):
        components(joined, (1, 2))


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0, 1))
def test_neighbourhoods_refine_components(seed: int, count: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    wants = {(i, j): bool(rng.random() < share) for i in range(count) for j in range(count)}
    joined = adjacency(wants, range(count))
    fine, coarse = neighbourhoods(joined, range(count)), components(joined, range(count))
    assert sorted(sum(fine, ())) == sorted(sum(coarse, ())) == list(range(count))
    assert all(any(set(cluster) <= set(other) for other in coarse) for cluster in fine)
    reach = np.linalg.matrix_power((joined == 1).astype(np.int64), count) > 0
    assert {frozenset(np.flatnonzero(row).tolist()) for row in reach} == {frozenset(cluster) for cluster in coarse}


@given(st.integers(0, 2**32 - 1), st.integers(1, 14), st.integers(1, 4), st.floats(0, 1))
def test_where_no_decided_pair_is_wrong_majorities_are_components(seed: int, count: int, groups: int, known: float) -> None:
    rng = np.random.default_rng(seed)
    group = rng.integers(groups, size=count)
    told = {pair: bool(group[pair[0]] == group[pair[1]]) for pair in combinations(range(count), 2) if rng.random() < known}
    found = adjacency(told | {pair[::-1]: edge for pair, edge in told.items()}, range(count))
    assert majorities(found, range(count)) == components(found, range(count))


def agreement(found: Array, clusters: tuple[tuple[int, ...], ...]) -> int:
    """Joined less refused pairs in clusters."""
    return sum(int(found[i, j]) for cluster in clusters for i, j in combinations(cluster, 2))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1))
def test_no_client_of_a_majority_would_rather_be_elsewhere(seed: int, count: int, joined: float, known: float) -> None:
    rng = np.random.default_rng(seed)
    drawn = {pair: bool(rng.random() < joined) for pair in combinations(range(count), 2) if rng.random() < known}
    found = adjacency(drawn | {pair[::-1]: edge for pair, edge in drawn.items()}, range(count))
    clusters = majorities(found, range(count))
    assert sorted(sum(clusters, ())) == list(range(count))
    assert agreement(found, clusters) >= 0
    for cluster in clusters:
        for client in cluster:
            rest = {other: tuple(set(other) - {client}) for other in clusters}
            for target in (*clusters, ()):
                moved = tuple(rest[c] + ((client,) if c == target else ()) for c in clusters)
                assert agreement(found, moved) <= agreement(found, clusters)


@pytest.mark.parametrize("seed", range(5))
def test_wrong_edges_and_a_client_of_two_groups_are_outvoted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    told = {(i, j): i % 4 == j % 4 for i, j in combinations(range(40), 2) if rng.random() < 0.7}
    told = {pair: edge != (rng.random() < 0.03) for pair, edge in told.items()}
    told |= {(0, j): j % 4 < 2 for j in range(1, 40)}  # client 0 is joined with its own group and another
    found = adjacency(told | {pair[::-1]: edge for pair, edge in told.items()}, range(40))
    clusters = [tuple(i for i in cluster if i) for cluster in majorities(found, range(40))]
    assert adjusted_rand_index(clusters, {i: i % 4 for i in range(1, 40)}) >= 0.9
    assert len(components(found, range(40))) == 1


def planted(groups: list[int], far: float, noise: float, seed: int) -> Array:
    """Excesses that are noise within a group and `far` across."""
    rng = np.random.default_rng(seed)
    group = np.array(groups)
    matrix: Array = noise * rng.standard_normal((len(group), len(group))) + far * (group[:, None] != group)
    np.fill_diagonal(matrix, 0)
    return matrix


@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("seed", range(5))
def test_calibration_finds_the_gap_at_any_scale(seed: int, scale: float) -> None:
    groups = [0] * 5 + [1] * 4 + [2] * 6
    matrix = scale * planted(groups, 0.05, 0.004, seed)
    found = from_distances(matrix, [scale * 0.09] * 15)
    assert found.noise <= found.below < found.eps < found.above
    joined = adjacency({(i, j): bool(matrix[i, j] < found.eps) for i in range(15) for j in range(15)}, range(15))
    assert adjusted_rand_index(neighbourhoods(joined, range(15)), dict(enumerate(groups))) == 1
    assert found.eps == pytest.approx(scale * from_distances(matrix / scale, [0.09] * 15).eps)


def test_calibration_joins_all_where_all_is_noise_and_parts_all_where_all_are_far() -> None:
    alone = planted([0] * 12, 0.0, 0.004, 1)
    found = from_distances(alone, [0.09] * 12)
    assert found.above == float("inf")
    assert alone.max() < found.eps
    apart = planted(list(range(6)), 0.3, 0.01, 2)
    assert from_distances(apart, [0.09] * 6).eps < np.min(apart + np.eye(6))
    lone = from_distances(np.zeros((1, 1)), [0.1])
    assert (lone.eps, lone.noise, lone.below, lone.above) == pytest.approx((0.015, 0.01, 0.01, float("inf")))


@pytest.mark.parametrize("tau", [0.12, 0.3, 2.0])
@pytest.mark.parametrize("liars", [(2,), (2, 9)])
def test_a_reference_that_is_reported_too_large_joins_nobody_else(tau: float, liars: tuple[int, ...]) -> None:
    """Liars accept everybody; calibration by the gap still parts the groups, as each liar's own row is not believed."""
    groups = [0] * 6 + [1] * 6
    matrix = planted(groups, 0.1, 0.004, 5)
    references = [0.09] * 12
    for liar in liars:
        matrix[liar] -= tau - 0.09
        matrix[liar, liar], references[liar] = 0.0, tau
    found = from_distances(matrix, references)
    honest = [i for i in range(12) if i not in liars]
    joined = adjacency({(i, j): bool(matrix[i, j] < found.eps) for i in honest for j in honest}, honest)
    assert adjusted_rand_index(neighbourhoods(joined, honest), {i: groups[i] for i in honest}) == 1
    assert from_references(references) == pytest.approx(0.0225)


def test_pairs_that_were_not_asked_do_not_count() -> None:
    matrix = planted([0, 0, 0, 1, 1, 1], 0.2, 0.004, 3)
    matrix[0, 4] = np.nan
    assert from_distances(matrix, [0.09] * 6).above > 0.15
    named = excess({(5, 3): 0.4, (3, 5): 0.3}, {5: 0.1, 3: 0.25}, (3, 5, 9))
    np.testing.assert_allclose(named, [[0, 0.05, np.nan], [0.3, 0, np.nan], [np.nan, np.nan, 0]])


def test_a_share_of_the_references_is_the_papers_tolerance_at_the_papers_distances() -> None:
    assert from_references([0.1, 0.1, 0.12, 0.09, 5.0]) == pytest.approx(0.025)
    assert from_references([30.0, 20.0], share=0.5) == pytest.approx(12.5)


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (8, 8, 8), (1, 2, 5, 3, 1)])
def test_replicates_refuse_clients_of_one_distribution_as_often_as_they_say(counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    refused = 0
    for _ in range(runs := 1500):
        rows = [rng.normal(0.1 * client, 0.01, count) for client, count in enumerate(counts)]
        refused += rng.normal(0.3, 0.01) - rng.normal(0.3, 0.01) >= from_replicates(rows, error=0.05)  # W - tau
    assert abs(refused / runs - 0.05) <= 4 * np.sqrt(0.05 * 0.95 / runs)
    assert from_replicates([[0.2] * 4] * 3) == 0


@pytest.mark.parametrize("references", [[], [0.0, 0.0], [np.nan, 0.1]])
def test_references_that_say_nothing_raise(references: list[float]) -> None:
    with pytest.raises(ValueError, match="reference distances"):
        from_references(references)
    with pytest.raises(ValueError, match="share"):
        from_references([0.1], share=0)
    for wrong in ([[1.0], [2.0]], [], [[1.0, np.nan]]):
        with pytest.raises(ValueError, match="two finite"):
            from_replicates(wrong)
    with pytest.raises(ValueError, match="error"):
        from_replicates([[1.0, 2.0]], error=0.0)
    with pytest.raises(ValueError, match="square"):
        from_distances(np.ones((2, 3)), [0.1])


def test_the_figure_shows_every_pair() -> None:
    matrix = planted([0, 0, 0, 1, 1], 0.2, 0.004, 5)
    matrix[0, 4] = np.nan
    figure = distance_figure(matrix, 0.05, (3, 4, 5, 8, 9))
    left, right = figure.axes[:2]
    shown = left.images[0].get_array()
    assert shown is not None
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan), matrix)
    heights = np.concatenate([np.asarray(line.get_ydata()) for line in right.lines[:2]])
    assert len(heights) == 9  # ten pairs, one of them asked by one side only
    assert (np.diff(heights) >= 0).all()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert len(np.unique(np.asarray(Image.open(buffer).convert("L")))) > 20
    with pytest.raises(ValueError, match="rows"):
        distance_figure(matrix, 0.05, (1, 2))
