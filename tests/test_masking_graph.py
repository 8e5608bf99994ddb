"""The masking graph against networkx, its tails against exact fractions, its parameters against published and simulated ones."""

import itertools
import math
from contextlib import suppress
from fractions import Fraction

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from cloister.protocol.masked import graph
from cloister.protocol.masked.graph import COMPLETE_UP_TO, _tail, agreed, disconnected, fewest, masking_graph, solve

SEED = bytes(range(32))
KNOWN = [(3, 7, 9, 26, 31, 35), (5, 14, 16, 19, 27, 30), (7, 9, 12, 23, 26, 28)]


def networkx_of(graph):
    return networkx.Graph((i, j) for i in graph.places for j in graph.neighbours(i))


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 2), (5, 2), (5, 4), (6, 5), (33, 32), (40, 2), (51, 20), (60, 8)])
def test_the_graph_is_regular_symmetric_and_connected(n, degree):
    roster = tuple(range(7, 7 + 3 * n, 3))
    graph = masking_graph(SEED, roster, degree)
    edges = networkx_of(graph)
    assert set(edges) == set(roster)
    assert all(i not in graph.neighbours(i) and len(set(graph.neighbours(i))) == degree for i in roster)
    assert all(i in graph.neighbours(j) for i in roster for j in graph.neighbours(i))
    assert networkx.node_connectivity(edges) == degree  # a Harary graph: no fewer than `degree` removals cut it
    assert all(graph.neighbours(i) == tuple(sorted(graph.neighbours(i))) for i in roster)


def test_known_answer():
    """Frozen: another graph from this seed would be another protocol version."""
    graph = masking_graph(SEED, tuple(range(40)), 6)
    assert [graph.neighbours(i) for i in (0, 1, 39)] == KNOWN


def test_the_seed_decides():
    roster = tuple(range(60))
    one, again, other = (masking_graph(seed, roster, 10) for seed in (SEED, SEED, SEED[::-1]))
    assert np.array_equal(one.order, again.order)
    assert sum(one.neighbours(i) == other.neighbours(i) for i in roster) == 0


@pytest.mark.long
def test_each_pair_is_as_likely_to_be_neighbours():
    n, degree, draws = 12, 4, 3_000
    counts = np.zeros((n, n))
    for draw in range(draws):
        graph = masking_graph(draw.to_bytes(32, "big"), tuple(range(n)), degree)
        for i in range(n):
            counts[i, list(graph.neighbours(i))] += 1
    expected = draws * degree / (n - 1)
    deviation = math.sqrt(expected * (1 - degree / (n - 1)))
    assert np.abs(counts[~np.eye(n, dtype=bool)] - expected).max() < 5 * deviation


@pytest.mark.parametrize(("n", "degree"), [(10, 3), (10, 0), (10, 10), (1, 0), (1, 1)])
def test_impossible_degrees_are_refused(n, degree):
    with pytest.raises(ValueError, match="even degree"):
        masking_graph(SEED, tuple(range(n)), degree)
    with pytest.raises(ValueError, match="each client once"):
        masking_graph(SEED, (1, 2, 2), 2)


@pytest.mark.parametrize(
    ("population", "marked", "drawn"), [(99, 10, 22), (999, 330, 102), (9, 9, 4), (9, 0, 4), (9, 4, 9), (30, 25, 20)]
)
def test_tails_are_the_exact_hypergeometric_ones(population, marked, drawn):
    tail = _tail(gammaln(np.arange(population + 2) + 1.0), population, marked, drawn)
    ways = [math.comb(marked, x) * math.comb(population - marked, drawn - x) for x in range(drawn + 1)]
    for x in range(drawn + 2):
        exact = float(Fraction(sum(ways[x:]), math.comb(population, drawn)))
        assert tail[x] == pytest.approx(exact, rel=1e-8, abs=0)


SHARES = [(0.05, 0.05), (0.10, 0.10), (0.20, 0.10), (0.33, 0.10)]
SEMI_HONEST = {100: [(12, 7), (22, 12), (32, 22), (42, 32)], 1000: [(30, 18), (46, 26), (68, 44), (102, 72)]}
SEMI_HONEST[10_000] = [(34, 20), (54, 31), (80, 51), (122, 85)]
MALICIOUS = {100: [(16, 11), (32, 22), (42, 32), (54, 44)], 1000: [(52, 37), (96, 67), (138, 102), (216, 169)]}
CHOSEN = {100: [(16, 11), (32, 22), (42, 32), (54, 44)], 1000: [(54, 39), (102, 72), (150, 112), (232, 183)]}


@pytest.mark.parametrize(
    ("table", "options"),
    [(SEMI_HONEST, {}), (MALICIOUS, {"malicious": True}), (CHOSEN, {"malicious": True, "dropouts": "chosen"})],
)
def test_parameters_at_the_usual_security(table, options):
    for n, row in table.items():
        for (gamma, delta), expected in zip(SHARES, row, strict=True):
            found = solve(n, round(gamma * n), delta, **options)
            assert (found.neighbours, found.threshold) == expected
            assert found.privacy <= 2**-40
            assert found.correctness <= 2**-20


def exact_tail(population, marked, drawn, least):
    ways = sum(
        math.comb(marked, x) * math.comb(population - marked, drawn - x) for x in range(max(least, 0), min(drawn, marked) + 1)
    )
    return Fraction(ways, math.comb(population, drawn))


@pytest.mark.parametrize("malicious", [False, True])
@pytest.mark.parametrize(("n", "gamma", "delta"), [(40, 0.1, 0.1), (100, 0.1, 0.1), (100, 0.2, 0.1), (200, 0.05, 0.2)])
def test_no_smaller_degree_would_do_and_the_found_one_does(n, gamma, delta, malicious):
    """Exact fractions, every even degree below the found one, every threshold."""
    found = solve(n, round(gamma * n), delta, malicious=malicious)
    bad, gone = int(gamma * n + 1e-9), int(delta * n + 1e-9)

    def fits(k, t):
        limit = 2 * t - k if malicious else t
        cut = 0
        if bad + gone >= k:
            cut = math.comb(n, 2) * Fraction(math.comb(bad + gone, k), math.comb(n, k))
        leak = n * exact_tail(n - 1, bad, k, limit) + cut
        return limit > 0 and leak <= Fraction(1, 2**40) and n * exact_tail(n - 1, gone, k, k - t + 1) <= Fraction(1, 2**20)

    assert fits(found.neighbours, found.threshold)
    assert not any(fits(k, t) for k in range(2, found.neighbours, 2) for t in range(1, k + 1))
    assert found.least_group >= 2
    assert n * exact_tail(n - 1, bad, found.neighbours, found.corrupt + 1) <= Fraction(1, 2**40)
    assert n * exact_tail(n - 1, bad, found.neighbours, found.corrupt) > Fraction(1, 2**40)


def test_thirty_neighbours_and_threshold_sixteen_are_not_enough_for_a_thousand():
    """31 shares, one of them the client's own, threshold 16: 2^-19.4 at 10 % corrupt and 2^-4.7 at 20 %, far from 2^-40."""
    for corrupt, log2 in ((100, -19.40), (200, -4.68)):
        assert math.log2(1000 * exact_tail(999, corrupt, 30, 16)) == pytest.approx(log2, abs=0.01)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 31, COMPLETE_UP_TO])
def test_few_clients_are_all_neighbours(n):
    for malicious in (False, True):
        found = solve(n, n // 10, 0.1, malicious=malicious)
        bad, gone = n // 10, n // 10
        assert found.complete
        assert found.neighbours == n - 1
        assert found.neighbours - gone >= found.threshold > (found.neighbours + bad) / 2 * malicious
        assert found.threshold > bad == found.corrupt
        assert found.privacy == found.correctness == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((10_000, 6000, 0.5), "10000 clients with 6000 corrupt and 5000 dropped.*at least 6001 .* at most 4999"),
        ((100, 50, 0.5), "at least 51 .* at most 49"),
        ((1, 0, 0.1), "2 clients or more"),
        ((100, 100, 0.1), "fewer of them corrupt"),
        ((100, 10, -0.1), "dropped is a share from 0 to below 1, not -0.1"),
        ((100, 10, 0.1, 0.0), "probabilities"),
        ((100, 10, 0.1, 0.5, 0.5, False, "chosen"), "malicious=True"),
        ((21, 10, 0.3, 0.5, 0.5, True), "at least 16 against a malicious server and at most 14"),
        ((20, 10, 0.3, 0.5, 0.5, True), "at least 15 against a malicious server and at most 13"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments, what):
    with pytest.raises(ValueError, match=what):
        solve(*arguments)


def test_the_bound_on_falling_apart_holds_and_is_not_loose():
    """Exhaustive: every set of missing clients on small rings; all positions are equally likely under the permutation."""
    for n, degree in ((9, 2), (10, 4), (12, 4)):
        edges = networkx_of(masking_graph(SEED, tuple(range(n)), degree))
        for missing in range(degree, n - 1):
            cut = sum(
                not networkx.is_connected(edges.subgraph(set(range(n)) - set(gone)))
                for gone in itertools.combinations(range(n), missing)
            )
            exact = cut / math.comb(n, missing)
            assert exact <= disconnected(n, missing, degree) + 1e-12
            if missing == degree:
                assert disconnected(n, missing, degree) <= 2.5 * exact
        assert disconnected(n, degree - 1, degree) == 0


@pytest.mark.long
def test_a_server_that_chooses_the_dropouts_cuts_only_through_corrupt_places():
    """Exhaustive: honest survivors who all keep t neighbours fall apart only between two stretches of enough corrupt places."""
    n, k, t = 12, 4, 3
    graph = masking_graph(SEED, tuple(range(n)), k)
    edges, order = networkx_of(graph), graph.order.tolist()
    cuts = 0
    for corrupt in itertools.combinations(range(n), 2):
        stretches = [sum(order[(p + q) % n] in corrupt for q in range(k // 2)) for p in range(n)]
        possible = sum(s >= t - k // 2 for s in stretches) >= 2
        for size in range(2, 6):
            for dropped in itertools.combinations(sorted(set(range(n)) - set(corrupt)), size):
                alive = set(range(n)) - set(dropped)
                honest = alive - set(corrupt)
                if all(len(alive & set(graph.neighbours(i))) >= t for i in honest):
                    apart = not networkx.is_connected(edges.subgraph(honest))
                    cuts += apart
                    assert possible or not apart
    assert cuts > 0


@pytest.mark.long
def test_no_opened_sum_holds_fewer_honest_clients_than_stated():
    """Random corruption and adversarial dropouts: honest survivors that all keep t neighbours come in groups of least_group."""
    found = solve(60, 6, 0.3, privacy=0.05, correctness=0.05)
    rng = np.random.default_rng(0)
    graph = masking_graph(SEED, tuple(range(60)), found.neighbours)
    edges = networkx_of(graph)
    tried = 0
    for _ in range(400):
        corrupt = set(rng.choice(60, 6, replace=False).tolist())
        alive = set(range(60)) - set(graph.order[int(rng.integers(60)) + np.arange(-rng.integers(3, 18), 0)].tolist())
        alive |= corrupt
        while weak := [i for i in alive - corrupt if len(alive & set(graph.neighbours(i))) < found.threshold]:
            alive -= set(weak)  # they are not opened
        honest = alive - corrupt
        if not honest or any(len(corrupt & set(graph.neighbours(i))) > found.corrupt for i in honest):
            continue
        tried += 1
        assert min(map(len, networkx.connected_components(edges.subgraph(honest)))) >= found.least_group
    assert tried > 50


def test_simulated_failures_are_as_rare_as_computed():
    """At weak security the union bound is nearly exact, so simulation can see it."""
    n, draws = 60, 4_000
    found = solve(n, 12, 0.1, privacy=0.1, correctness=0.1)
    rng = np.random.default_rng(1)
    half = found.neighbours // 2
    offsets = np.r_[-half:0, 1 : half + 1]
    leaked = lost = 0
    for _ in range(draws):
        ring = rng.permutation(n)
        near = ring[(np.arange(n)[:, None] + offsets) % n]
        leaked += ((near < 12).sum(1) >= found.threshold).any()
        lost += ((near < 6).sum(1) > found.neighbours - found.threshold).any()
    slack = 4 * math.sqrt(0.1 / draws)
    assert leaked / draws <= found.privacy + slack
    assert lost / draws <= found.correctness + slack
    assert leaked + lost > 0


def test_ten_thousand_clients_are_solved_in_few_steps(monkeypatch):
    """Not by trying all degrees and thresholds: every sum over a tail is one of an array."""
    asked = []
    monkeypatch.setattr(graph, "_tail", lambda *given: asked.append(1) or _tail(*given))
    solve(10_000, 3300, 0.1, malicious=True)
    assert len(asked) < 1000


@pytest.mark.long
@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 6), st.sampled_from((0.0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.45)))
def test_from_the_fewest_on_any_number_can_be_masked(least: int, corrupt: int, dropped: float) -> None:
    """Thresholds are whole numbers: of three corrupt and a quarter dropped seven have one, eight do not, nine do."""

    def masked(clients: int) -> bool:
        with suppress(ValueError):
            return bool(agreed(clients, corrupt, dropped))
        return False

    found = fewest(least, corrupt, dropped)
    assert all(map(masked, range(found, found + 40)))
    assert found == max(2, least) or not masked(found - 1)
    assert (fewest(3, 3, 0.25), fewest(3, 0, 0.5)) == (9, 3)
