"""Clustering metrics: invariances, an independent formula, known answers."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.fl.runs.metrics import adjusted_rand_index, membership, purity

partitions = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)


def clusters_of(labels):
    return [tuple(i for i in labels if labels[i] == label) for label in sorted(set(labels.values()))]


@given(partitions)
def test_rand_index_counts_pairs_as_hubert_and_arabie_do(pairs):
    found = {i: a for i, (a, _) in enumerate(pairs)}
    planted = {i: b for i, (_, b) in enumerate(pairs)}
    together = sum(comb(list(zip(found.values(), planted.values(), strict=True)).count(cell), 2) for cell in set(pairs))
    in_found = sum(comb(len(cluster), 2) for cluster in clusters_of(found))
    in_planted = sum(comb(len(cluster), 2) for cluster in clusters_of(planted))
    expected, most = in_found * in_planted / comb(len(pairs), 2), (in_found + in_planted) / 2
    index = 1.0 if most == expected else (together - expected) / (most - expected)
    assert adjusted_rand_index(found, planted) == pytest.approx(index)


@given(partitions, st.permutations(range(4)), st.randoms(use_true_random=False))
def test_names_and_orders_do_not_matter(pairs, names, random):
    found = {10 * i: a for i, (a, _) in enumerate(pairs)}
    planted = {10 * i: b for i, (_, b) in enumerate(pairs)}
    renamed = {i: names[a] for i, a in found.items()}
    listed = clusters_of(renamed)
    random.shuffle(listed)
    assert adjusted_rand_index(listed, planted) == pytest.approx(adjusted_rand_index(found, planted))
    assert purity(listed, planted) == purity(clusters_of(found), planted)


@given(partitions)
def test_purity_is_the_fraction_of_clients_without_a_stranger(pairs):
    found = {i: a for i, (a, _) in enumerate(pairs)}
    planted = {i: b for i, (_, b) in enumerate(pairs)}
    alone = [all(planted[j] == planted[i] for j in found if found[j] == found[i]) for i in found]
    assert purity(clusters_of(found), planted) == sum(alone) / len(alone)


def test_perfect_clusters():
    planted = {3: 7, 1: 7, 9: 2, 4: 2}
    assert adjusted_rand_index([(1, 3), (9, 4)], planted) == 1.0
    assert purity([(1, 3), (9, 4)], planted) == 1.0


def test_singletons_are_pure_and_worthless():
    planted = {0: 0, 1: 0, 2: 1, 3: 1}
    assert purity([(0,), (1,), (2,), (3,)], planted) == 1.0
    assert adjusted_rand_index([(0,), (1,), (2,), (3,)], planted) == 0.0


def test_one_stranger_spoils_the_whole_cluster():
    planted = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}
    assert purity([(0, 1, 2, 3), (4,)], planted) == 0.2
    assert purity([(0, 1, 2, 3, 4)], planted) == 0.0


def test_membership_names_the_cluster_of_every_client():
    assert membership([(3, 5), (), (4,)]) == {3: 0, 5: 0, 4: 2}


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="twice"):
        membership([(1, 2), (2, 3)])
    with pytest.raises(ValueError, match="twice"):
        purity([(1, 1)], {1: 0})
    with pytest.raises(ValueError, match="same clients"):
        adjusted_rand_index({1: 0, 2: 0}, {1: 0})
    with pytest.raises(ValueError, match="same clients"):
        purity([(1,)], {1: 0, 2: 0})
    with pytest.raises(ValueError, match="at least one"):
        purity([], {})
