"""Partitions: every example is dealt at most once, groups are planted as stated, training and test data change alike."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.data.dealing import blocks
from cloister.fl.data.partition import (
    EQUAL,
    FLIC_PAIRS,
    CongruentHalves,
    Dirichlet,
    Iid,
    LabelPermutation,
    LabelSwap,
    LogNormal,
    Partition,
    PowerLaw,
    Rotation,
    TopicPerClient,
)
from cloister.fl.data.population import Examples, Population, Source
from cloister.fl.data.rotation import rotate

CLASSES = 10


def numbered(first: int, count: int) -> Examples:
    """Examples whose top left pixel is their number, so that a test can tell where each went; label = number mod 10."""
    number = torch.arange(first, first + count)
    x = torch.zeros(count, 1, 4, 4)
    x[:, 0, 0, 0] = number / 10_000
    return Examples(x, number % CLASSES, number % 4)


def source(train: int = 240, test: int = 120) -> Source:
    return Source("numbered", numbered(0, train), numbered(5_000, test), CLASSES)


def numbers(examples: Examples) -> list[int]:
    """The numbers of `numbered` examples, whichever way they were rotated."""
    return (examples.x.sum(dim=(1, 2, 3)) * 10_000).round().to(torch.int64).tolist()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def sizes(population: Population) -> list[int]:
    return [len(population.clients[client].train) for client in range(len(population.clients))]


def label_maps(population: Population, client: int) -> tuple[dict[int, int], dict[int, int]]:
    """True label -> the client's label, for its training and its test examples; fails if one label became two."""
    maps = []
    for examples in (population.clients[client].train, population.clients[client].test):
        pairs = {(number % CLASSES, label) for number, label in zip(numbers(examples), examples.y.tolist(), strict=True)}
        assert len(pairs) == len(dict(pairs))
        maps.append(dict(pairs))
    return maps[0], maps[1]


SIZES = st.sampled_from([EQUAL, LogNormal(1.5), PowerLaw(1.2)])
SAMPLES = st.one_of(st.none(), st.integers(1, 50))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    clients = draw(st.integers(4, 30))
    options = {"sizes": draw(SIZES), "samples": draw(SAMPLES)}
    groups = draw(st.integers(1, min(clients, 5)))
    return draw(
        st.sampled_from(
            [
                Iid(clients, **options),
                LabelSwap(clients, groups, **options),
                LabelSwap(clients, groups, pairs=None, **options),
                LabelPermutation(clients, groups, **options),
                Rotation(clients, (0, 90, 270), **options),
                TopicPerClient(clients, **options),
                CongruentHalves(clients, **options),
                Dirichlet(clients, draw(st.sampled_from([0.01, 0.5, 100.0])), **options),
            ]
        )
    )


@given(partitions(), st.integers(0, 2**32))
def test_training_examples_are_dealt_at_most_once_and_every_client_has_some(partition: Partition, seed: int) -> None:
    population = partition(source(), rng(seed))
    dealt = [number for client in population.clients.values() for number in numbers(client.train)]
    assert len(dealt) == len(set(dealt))
    assert set(dealt) <= set(range(240))
    assert list(population.clients) == list(range(partition.clients))
    assert min(sizes(population)) >= 1
    assert max(sizes(population)) <= (partition.samples or 240)
    for identity, client in population.clients.items():
        assert client.id == identity
        assert len(client.test) >= 1
        assert set(numbers(client.test)) <= set(range(5_000, 5_120))


@given(partitions(), st.integers(0, 2**32))
def test_the_same_seed_deals_the_same_population(partition: Partition, seed: int) -> None:
    one, two = partition(source(), rng(seed)), partition(source(), rng(seed))
    assert one.groups == two.groups
    for client in one.clients:
        assert torch.equal(one.clients[client].train.x, two.clients[client].train.x)
        assert torch.equal(one.clients[client].train.y, two.clients[client].train.y)
        assert torch.equal(one.clients[client].test.x, two.clients[client].test.x)


def test_another_seed_deals_another_population() -> None:
    assert numbers(Iid(3)(source(), rng(0)).clients[0].train) != numbers(Iid(3)(source(), rng(1)).clients[0].train)


@given(st.integers(1, 60), st.integers(1, 60))
def test_groups_are_contiguous_blocks_that_differ_by_at_most_one(clients: int, groups: int) -> None:
    if groups > clients:
        with pytest.raises(ValueError, match="leave a group empty"):
            blocks(clients, groups)
        return
    planted = list(blocks(clients, groups).values())
    assert planted == sorted(planted)
    assert set(planted) == set(range(groups))
    counts = Counter(planted).values()
    assert max(counts) - min(counts) <= 1


@settings(max_examples=20)
@given(st.integers(1, 120))
def test_equal_sizes_are_exactly_equal_and_leave_less_than_one_each(clients: int) -> None:
    population = Iid(clients)(source(), rng())
    assert sizes(population) == [240 // clients] * clients
    assert [len(client.test) for client in population.clients.values()] == [120 // clients] * clients


def test_test_shares_are_disjoint() -> None:
    dealt = [number for client in LabelSwap(7, 3)(source(), rng()).clients.values() for number in numbers(client.test)]
    assert len(dealt) == len(set(dealt)) == 7 * (120 // 7)


def test_cfl_figure_5_gives_every_client_the_number_of_samples_asked_for() -> None:
    assert sizes(LabelSwap(20, 4, pairs=None, samples=10)(source(), rng())) == [10] * 20


@pytest.mark.parametrize("groups", [1, 3, 5])
def test_label_swap_swaps_its_pair_and_nothing_else_in_training_and_test_data(groups: int) -> None:
    population = LabelSwap(6, groups)(source(), rng())
    for client, group in population.groups.items():
        first, second = FLIC_PAIRS[group]
        swapped = {label: label for label in range(CLASSES)} | {first: second, second: first}
        for seen in label_maps(population, client):
            assert seen.items() <= swapped.items()
            assert {first, second} <= seen.keys()


@pytest.mark.long
@given(st.integers(0, 2**32), st.integers(1, 45))
def test_random_swaps_are_involutions_and_differ_between_groups(seed: int, groups: int) -> None:
    population = LabelSwap(45, groups, pairs=None, shared_test=True)(source(2_400), rng(seed))
    maps = {group: label_maps(population, client)[1] for client, group in population.groups.items()}
    for relabel in maps.values():
        assert all(relabel[relabel[label]] == label for label in range(CLASSES))
        assert sum(relabel[label] != label for label in range(CLASSES)) == 2
    assert len({tuple(sorted(relabel.items())) for relabel in maps.values()}) == groups


@given(st.integers(0, 2**32))
def test_label_permutation_is_one_bijection_per_group_for_training_and_test(seed: int) -> None:
    population = LabelPermutation(8, 4, shared_test=True)(source(), rng(seed))
    maps = {client: label_maps(population, client) for client in population.clients}
    for client, (train, test) in maps.items():
        assert sorted(test) == sorted(test.values()) == list(range(CLASSES))
        assert train.items() <= test.items()
        for other, (_, its_test) in maps.items():
            assert (test == its_test) == (population.groups[client] == population.groups[other])


def test_all_permutations_of_two_labels_can_be_planted_but_no_third() -> None:
    two = Examples(torch.zeros(8, 1, 1, 1), torch.arange(8) % 2)
    few = Source("two", two, two, 2)
    population = LabelPermutation(2, 2)(few, rng())
    assert sorted(population.groups.values()) == [0, 1]
    with pytest.raises(ValueError, match="too few permutations"):
        LabelPermutation(3, 3)(few, rng())


def test_a_shared_test_set_is_stored_once_per_group_and_its_inputs_once_for_all_relabelled_groups() -> None:
    data = source()
    population = LabelSwap(8, 4, shared_test=True)(data, rng())
    for client, group in population.groups.items():
        assert population.clients[client].test is population.clients[2 * group].test
        assert population.clients[client].test.x is data.test.x
    rotated = Rotation(8, shared_test=True)(data, rng())
    assert rotated.clients[0].test.x is data.test.x
    assert rotated.clients[2].test is rotated.clients[3].test
    assert torch.equal(rotated.clients[2].test.x, torch.rot90(data.test.x, 1, (2, 3)))


def test_the_source_is_left_as_it_was() -> None:
    data = source()
    for partition in (LabelSwap(4, 4), LabelPermutation(4, 4, shared_test=True), Rotation(4, shared_test=True)):
        partition(data, rng())
    assert torch.equal(data.train.y, source().train.y)
    assert torch.equal(data.test.y, source().test.y)
    assert torch.equal(data.test.x, source().test.x)


def test_rotation_turns_counter_clockwise() -> None:
    image = torch.tensor([[1.0, 2.0], [3.0, 4.0]])[None, None]
    assert rotate(image, 0) is image
    assert rotate(image, 90)[0, 0].tolist() == [[2.0, 4.0], [1.0, 3.0]]
    assert rotate(image, 180)[0, 0].tolist() == [[4.0, 3.0], [2.0, 1.0]]
    assert torch.equal(rotate(image, -90), rotate(image, 270))


@pytest.mark.parametrize("quarter", [0, 90, 180, 270])
def test_interpolated_rotation_approaches_the_exact_quarter_turns(quarter: int) -> None:
    image = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rotate(image, quarter + 1e-4), rotate(image, quarter), atol=1e-4)


def test_rotated_groups_hold_their_angle_in_training_and_test_data() -> None:
    population = Rotation(8)(source(), rng())
    corners = [(0, 0), (3, 0), (3, 3), (0, 3)]  # where the marked pixel is after 0, 90, 180, 270 degrees
    for client, group in population.groups.items():
        row, column = corners[group]
        for examples in (population.clients[client].train, population.clients[client].test):
            assert torch.equal(examples.x[:, 0, row, column], examples.x.sum(dim=(1, 2, 3)))
            assert examples.y.tolist() == [number % CLASSES for number in numbers(examples)]


def test_rotation_refuses_equal_angles_and_oblong_images() -> None:
    with pytest.raises(ValueError, match="angles must differ"):
        Rotation(4, (0, 360))(source(), rng())
    with pytest.raises(ValueError, match="only square images"):
        rotate(torch.zeros(1, 1, 2, 3), 90)


def test_every_client_holds_one_topic_in_training_and_test_data() -> None:
    population = TopicPerClient(20)(source(), rng())
    assert population.groups == blocks(20, 4)
    assert sizes(population) == [12] * 20
    for client, group in population.groups.items():
        held = population.clients[client]
        assert {number % 4 for number in numbers(held.train) + numbers(held.test)} == {group}
        assert held.train.topic is not None
        assert set(held.train.topic.tolist()) == {group}


def test_topics_can_have_different_numbers_of_clients() -> None:
    population = TopicPerClient(18, per_topic=(4, 4, 3, 7))(source(), rng())
    assert [Counter(population.groups.values())[group] for group in range(4)] == [4, 4, 3, 7]
    assert sizes(population) == [15] * 8 + [20] * 3 + [8] * 7
    for wrong in ((4, 4, 3), (4, 4, 3, 8), (0, 4, 7, 7)):
        with pytest.raises(ValueError, match="per_topic must be 4 positive numbers"):
            TopicPerClient(18, per_topic=wrong)(source(), rng())


def test_topics_are_needed() -> None:
    plain = source()
    plain = Source("plain", Examples(plain.train.x, plain.train.y), plain.test, CLASSES)
    with pytest.raises(ValueError, match="plain has no topics"):
        TopicPerClient(4)(plain, rng())


def test_congruent_halves_hold_the_low_and_the_high_labels() -> None:
    population = CongruentHalves()(source(), rng())
    assert population.groups == {0: 0, 1: 0}
    assert sizes(population) == [120, 120]
    for client, labels in ((0, set(range(5))), (1, set(range(5, 10)))):
        assert set(population.clients[client].train.y.tolist()) == labels
        assert set(population.clients[client].test.y.tolist()) == labels


@given(st.integers(1, 240), st.floats(0.001, 100), st.integers(0, 2**32))
@pytest.mark.long
def test_dirichlet_deals_every_training_example_exactly_once(clients: int, alpha: float, seed: int) -> None:
    population = Dirichlet(clients, alpha)(source(), rng(seed))
    assert sorted(number for client in population.clients.values() for number in numbers(client.train)) == list(range(240))
    assert set(population.groups.values()) == {0}


def skew(population: Population) -> float:
    """Mean share of the most frequent label of a client."""
    return float(np.mean([client.train.y.bincount().max() / len(client.train) for client in population.clients.values()]))


def test_dirichlet_skews_labels_for_small_alpha_only_and_alike_in_training_and_test_data() -> None:
    data = source(2_400, 2_400)
    assert skew(Dirichlet(10, 0.05)(data, rng())) > 0.4
    assert skew(Dirichlet(10, 1e4)(data, rng())) < 0.12
    for client in Dirichlet(10, 0.3)(data, rng()).clients.values():
        train, test = (split.y.bincount(minlength=CLASSES) for split in (client.train, client.test))
        assert (train - test).abs().max() <= 1  # the splits are alike, so equal proportions give equal counts


def test_a_client_without_a_test_share_tests_on_its_most_frequent_training_label() -> None:
    data = source(2_400, 10)  # one test example of each label, 30 clients: at least 20 have no share
    for client in Dirichlet(30, 0.5)(data, rng()).clients.values():
        counts = client.train.y.bincount(minlength=CLASSES)
        assert len(client.test) >= 1
        assert len(client.test) > 1 or counts[client.test.y[0]] > 0


@pytest.mark.parametrize("alpha", [1e-300, 1e-12, 1e12])
def test_extreme_dirichlet_parameters_still_deal_everything(alpha: float) -> None:
    assert sum(sizes(Dirichlet(7, alpha)(source(), rng()))) == 240


def test_dirichlet_sizes_follow_the_asked_shares_when_alpha_is_large() -> None:
    shares = PowerLaw(1.0)(5, rng(3))
    found = np.array(sizes(Dirichlet(5, 1e6, sizes=PowerLaw(1.0))(source(2_400), rng(3)))) / 2_400
    assert np.allclose(found, shares, atol=0.02)


@pytest.mark.parametrize("law", [EQUAL, LogNormal(2.0), PowerLaw(1.5)])
def test_shares_are_positive_and_sum_to_one(law: object) -> None:
    shares = law(50, rng())  # type: ignore[operator]
    assert shares.shape == (50,)
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)


def test_power_law_shares_are_those_of_the_ranks() -> None:
    assert sorted(PowerLaw(1.0)(3, rng()), reverse=True) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert np.allclose(PowerLaw(0.0)(4, rng()), 0.25)
    assert np.allclose(LogNormal(0.0)(4, rng()), 0.25)


def test_unequal_sizes_reach_the_clients_and_leave_tests_equal() -> None:
    population = Iid(3, sizes=PowerLaw(1.0))(source(220), rng())
    assert sorted(sizes(population), reverse=True) == [120, 60, 40]
    assert [len(client.test) for client in population.clients.values()] == [40] * 3


def test_very_unequal_sizes_still_leave_everyone_one_example() -> None:
    found = sizes(Iid(200, sizes=PowerLaw(5.0), shared_test=True)(source(), rng()))
    assert min(found) == 1
    assert sum(found) <= 240


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (Iid(241), "240 training examples are too few for 241 clients"),
        (Iid(121), "120 test examples are too few for 121 clients"),
        (Dirichlet(241, 1.0), "240 training examples are too few for 241 clients"),
        (LabelSwap(12, 6), "6 groups need as many label pairs, but there are 5"),
        (LabelSwap(50, 46, pairs=None), "only 45 pairs"),
        (LabelSwap(4, 2, pairs=((0, 1), (1, 0))), "different pairs"),
        (LabelSwap(4, 2, pairs=((0, 1), (2, 2))), "different pairs"),
        (LabelSwap(4, 2, pairs=((0, 1), (2, 10))), "from 0 to 9"),
        (LabelSwap(3, 4), "leave a group empty"),
        (Rotation(3), "leave a group empty"),
        (TopicPerClient(3), "leave a group empty"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(partition: Partition, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        partition(source(), rng())
    assert "\n" not in str(refusal.value)


def test_a_limit_makes_room_for_no_more_clients_but_a_shared_test_set_does() -> None:
    assert sizes(Iid(200, shared_test=True)(source(), rng())) == [1] * 200


@pytest.mark.parametrize("partition", [LabelSwap(4, 2), LabelPermutation(4, 2), CongruentHalves(), Dirichlet(4, 1.0)])
def test_token_data_has_no_labels_to_partition_by(partition: Partition) -> None:
    rows = Examples(torch.zeros(8, 3, dtype=torch.int64), torch.zeros(8, 3, dtype=torch.int64), torch.arange(8) % 4)
    text = Source("text", rows, rows, 5)
    with pytest.raises(ValueError, match="text has no label for each example"):
        partition(text, rng())
    assert TopicPerClient(4)(text, rng()).shape == (3,)
