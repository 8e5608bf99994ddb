"""The meters on accounts whose answers are known by hand, against their definitions by brute force, and against the attack."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.fl.meters.account import Account, block_of
from cloister.fl.meters.algebra import row_basis
from cloister.fl.meters.known import keys_of, known_sums
from cloister.fl.meters.participation import informations, leverages, participation
from cloister.fl.meters.span import span
from cloister.fl.meters.temporal import temporal
from cloister.protocol.view.account import Form, Opened, Sketched

Vectors = dict[tuple[int, int], NDArray[np.float32]]
"""Updates by round and client."""


def drawn(rounds: int, clients: int, d: int, seed: int = 0) -> Vectors:
    rng = np.random.default_rng(seed)
    return {(t, i): rng.normal(size=d).astype(np.float32) for t, i in product(range(rounds), range(clients))}


def account_of(vectors: Vectors, sketched: Sequence[Sketched], opened: Sequence[Opened], width: int | None = None) -> Account:
    d = len(next(iter(vectors.values())))
    blocks = {}
    for t in sorted({t for t, _ in vectors}):
        updates = {i: v for (s, i), v in vectors.items() if s == t}
        blocks[t, "update"] = block_of([e.row for e in opened if e.round == t], updates, d)
    return Account(width or d, d, tuple(sorted({i for _, i in vectors})), False, blocks, sketched, opened)


def sums(rounds: int, *rows: dict[int, float]) -> list[Opened]:
    return [Opened(t, "0", "update", row) for t in range(rounds) for row in rows]


def sketches(key: str, form: Form, round: int, clients: Sequence[int], rounds: tuple[int, ...] = ()) -> Sketched:
    return Sketched(key.encode(), form, "update", round, "0", tuple(clients), rounds)


def mean(vectors: Vectors, t: int, row: dict[int, float]) -> NDArray[np.float64]:
    return np.sum([a * vectors[t, i].astype(np.float64) for i, a in row.items()], axis=0) / sum(row.values())


# --- span: known by hand ----------------------------------------------------------------------------------------------


def test_raw_sketches_under_one_key_tell_the_part_along_all_published_sums() -> None:
    vectors, everybody = drawn(5, 6, 40), dict.fromkeys(range(6), 1.0)
    found = span(account_of(vectors, [sketches("run", "raw", t, range(6)) for t in range(5)], sums(5, everybody)))
    assert found.pairs == 5
    basis = np.linalg.qr(np.array([mean(vectors, t, everybody) for t in range(5)]).T)[0]
    for (t, _, i), energy in found.energy.items():
        delta = vectors[t, i] - mean(vectors, t, everybody)
        assert energy == pytest.approx(np.square(basis.T @ delta).sum() / (delta @ delta), abs=1e-9)
    assert len(found.energy) == 30
    assert min(found.energy.values()) > 0


def test_session_keys_leave_one_pair_each_and_its_direction_alone() -> None:
    vectors, everybody = drawn(5, 6, 40), dict.fromkeys(range(6), 1.0)
    found = span(account_of(vectors, [sketches(f"{t}", "raw", t, range(6)) for t in range(5)], sums(5, everybody)))
    assert found.pairs == 5
    delta, m = vectors[2, 3] - mean(vectors, 2, everybody), mean(vectors, 2, everybody)
    assert found.energy[2, "update", 3] == pytest.approx((delta @ m) ** 2 / (delta @ delta) / (m @ m), abs=1e-9)


def test_offset_sketches_leave_no_pair_with_one_sum_and_p_minus_one_with_p() -> None:
    vectors = drawn(1, 8, 40)
    rng = np.random.default_rng(1)
    rows = [dict(enumerate(rng.uniform(0.5, 2, 8))) for _ in range(5)]
    for p in range(1, 6):
        found = span(account_of(vectors, [sketches("s", "offset", 0, range(8))], sums(1, *rows[:p])))
        assert found.pairs == p - 1
        assert (max(found.energy.values()) > 0) == (p > 1)


def test_offset_sessions_under_one_key_do_not_help_each_other() -> None:
    vectors, everybody = drawn(6, 5, 40), dict.fromkeys(range(5), 1.0)
    found = span(account_of(vectors, [sketches("run", "offset", t, range(5)) for t in range(6)], sums(6, everybody)))
    assert found.pairs == 0
    assert set(found.energy.values()) == {0.0}


def test_one_offset_over_two_rounds_links_their_sums() -> None:
    """Kept updates of two rounds under one offset: the difference of the rounds' sums is known."""
    vectors = drawn(2, 6, 40)
    opened = [Opened(0, "0", "update", dict.fromkeys(range(3), 1.0)), Opened(1, "0", "update", dict.fromkeys(range(3, 6), 2.0))]
    kept = sketches("recall", "offset", 2, range(6), (0, 0, 0, 1, 1, 1))
    assert span(account_of(vectors, [kept], opened)).pairs == 1
    apart = [sketches("recall", "offset", 2, range(3), (0,) * 3), sketches("recall", "offset", 2, range(3, 6), (1,) * 3)]
    assert span(account_of(vectors, apart, opened)).pairs == 0


def test_a_sum_with_somebody_whose_sketch_is_not_known_is_no_pair() -> None:
    vectors, everybody = drawn(1, 6, 40), dict.fromkeys(range(6), 1.0)
    part = dict.fromkeys(range(5), 1.0)
    raw = [sketches("s", "raw", 0, range(5))]
    assert span(account_of(vectors, raw, sums(1, everybody))).pairs == 0
    assert span(account_of(vectors, raw, sums(1, everybody, part))).pairs == 1


def test_a_raw_sketch_grounds_the_offset_of_a_set_that_it_shares_an_update_with() -> None:
    vectors, row = drawn(1, 6, 40), dict.fromkeys(range(3, 6), 1.0)
    entries = [sketches("s", "offset", 0, range(2, 6)), sketches("s", "raw", 0, range(3))]
    assert span(account_of(vectors, entries[:1], sums(1, row))).pairs == 0
    assert span(account_of(vectors, entries, sums(1, row))).pairs == 1


def test_sums_published_twice_or_of_wild_scales_are_counted_once_and_right() -> None:
    vectors = drawn(1, 6, 40)
    ones = dict.fromkeys(range(6), 1.0)
    skewed = {**ones, 0: 1.5}
    for scale in (1.0, 1e-9, 1e-200, 1e200):
        twice = sums(1, ones, {i: scale * a for i, a in ones.items()}, {i: scale * a for i, a in skewed.items()})
        found = span(account_of(vectors, [sketches("s", "raw", 0, range(6))], twice))
        assert found.pairs == 2
        delta = vectors[0, 0] - mean(vectors, 0, ones)
        assert found.energy[0, "update", 0] == pytest.approx(1.0, abs=1e-6), delta  # x_0 itself is a combination


# --- span: brute force ------------------------------------------------------------------------------------------------


def intersection(c: NDArray[np.float64], a: NDArray[np.float64]) -> NDArray[np.float64]:
    """col C intersect col A by the null space of [C, -A], columns."""
    _, values, right = np.linalg.svd(np.concatenate([c, -a], axis=1))
    null = right[int((values > 1e-9).sum()) :]
    found = c @ null[:, : c.shape[1]].T
    left, values, _ = np.linalg.svd(found, full_matrices=False)
    return np.asarray(left[:, values > 1e-9])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80)
def test_the_span_is_its_definition_on_random_accounts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds, clients = int(rng.integers(1, 4)), int(rng.integers(2, 6))
    vectors = drawn(rounds, clients, 24, seed)
    instances = sorted(vectors)

    def some() -> list[int]:
        return sorted(rng.choice(clients, int(rng.integers(1, clients + 1)), replace=False).tolist())

    rows = [(t, some()) for t in range(rounds) for _ in range(rng.integers(0, 4))]
    opened = [Opened(t, "0", "update", {i: float(rng.choice([-2, -1, 1, 2, 3])) for i in row}) for t, row in rows]
    entries = []
    for chosen in [some() for _ in range(rng.integers(1, 5))]:
        form: Form = "raw" if rng.random() < 0.3 else "offset"
        entries.append(sketches("k", form, 0, chosen, tuple(rng.integers(0, rounds, len(chosen)).tolist())))
    weights = [[e.row.get(i, 0.0) if t == e.round else 0.0 for e in opened] for t, i in instances]
    a = np.array(weights).reshape(len(instances), len(opened))
    columns = []
    grounded: set[tuple[int, int]] = set()
    while True:  # a raw sketch of one of a set tells the set's offset
        now = set(grounded)
        for e in entries:
            of = set(zip(e.made, e.clients, strict=True))
            now |= of if e.form == "raw" or of & now else set()
        if now == grounded:
            break
        grounded = now
    for e in entries:
        at = [instances.index(of) for of in zip(e.made, e.clients, strict=True)]
        block = np.eye(len(instances))[:, at]
        columns.append(block if instances[at[0]] in grounded else block @ (np.eye(len(at)) - 1 / len(at)))
    c = np.concatenate(columns, axis=1)
    found = intersection(c, a) if opened else np.zeros((len(instances), 0))
    account = account_of(vectors, entries, opened)
    measured = span(account)
    assert measured.pairs == found.shape[1]
    x = np.array([vectors[of] for of in instances], np.float64).T
    basis = np.linalg.qr(x @ found)[0]
    for (t, kind, i), energy in measured.energy.items():
        delta = account.deviation((t, kind, i))
        assert delta is not None
        expected = np.square(basis.T @ delta).sum() / (delta @ delta) if delta @ delta > 1e-12 else 0.0
        assert energy == pytest.approx(expected, abs=1e-6)


def test_an_update_in_two_forms_is_completed_through_what_both_have_in_common() -> None:
    """Raw under a key of round 0 and offset under a key of both rounds: K_xS K_SS^+ K_Sm with S the differences of round 0."""
    vectors, everybody = drawn(2, 6, 12), dict.fromkeys(range(6), 1.0)
    offset = [sketches("run", "offset", t, range(6)) for t in range(2)]
    opened = sums(2, everybody)
    assert max(span(account_of(vectors, offset, opened)).energy.values()) == 0
    both = span(account_of(vectors, [*offset, sketches("0", "raw", 0, range(6))], opened))
    assert both.pairs == 1
    x = np.array([vectors[0, i] for i in range(6)], np.float64)
    m, s = x.mean(axis=0), x - x.mean(axis=0)
    for i in range(6):
        delta = vectors[1, i] - mean(vectors, 1, everybody)
        product = float((s @ delta) @ np.linalg.pinv(s @ s.T, rcond=1e-9) @ (s @ m))
        told = (2 * product * (m @ delta) - product**2) / (m @ m) / (delta @ delta)
        assert both.energy[1, "update", i] == pytest.approx(max(0.0, told), abs=1e-6)
    assert max(both.energy[1, "update", i] for i in range(6)) > 0


# --- the attack itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["raw", "offset"])
def test_regression_on_known_pairs_recovers_what_the_meter_says(form: Form) -> None:
    """A server that has sums, weights and sketches, and nothing else: of an isometric sketch it gets exactly that energy."""
    d, clients, rounds = 30, 6, 4
    vectors = drawn(rounds, clients, d, 3)
    rng = np.random.default_rng(4)
    rows = [dict(enumerate(rng.uniform(0.5, 2, clients))) for _ in range(2)]
    secret = np.linalg.qr(rng.normal(size=(d, d)))[0]
    offsets = rng.normal(size=(rounds, d)) * (form == "offset") * 1e3
    shown = {of: secret @ v + offsets[of[0]] for of, v in vectors.items()}
    published = [
        (t, row, sum(a * vectors[t, i].astype(np.float64) for i, a in row.items())) for t in range(rounds) for row in rows
    ]
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for t in range(rounds):
        sketched = [sum(a * shown[t, i] for i, a in row.items()) for row in rows]
        plain = [vector for s, _, vector in published if s == t]
        if form == "raw":
            pairs += zip(plain, sketched, strict=True)
        else:
            ratio = sum(rows[0].values()) / sum(rows[1].values())
            pairs.append((plain[0] - ratio * plain[1], sketched[0] - ratio * sketched[1]))
    entries = [sketches("run", form, t, range(clients)) for t in range(rounds)]
    found = span(account_of(vectors, entries, sums(rounds, *rows)))
    assert found.pairs == len(pairs) == (2 * rounds if form == "raw" else rounds)
    known, of_known = (np.array(column) for column in zip(*pairs, strict=True))
    for (t, i), update in vectors.items():
        weights = np.array([rows[0][j] for j in range(clients)]) / sum(rows[0].values())
        seen = shown[t, i] - sum(w * shown[t, j] for j, w in enumerate(weights))
        estimate = np.linalg.lstsq(of_known.T, seen, rcond=None)[0] @ known
        delta = update - mean(vectors, t, rows[0])
        assert found.energy[t, "update", i] == pytest.approx(1 - np.square(delta - estimate).sum() / (delta @ delta), abs=1e-5)


# --- temporal ---------------------------------------------------------------------------------------------------------


def test_the_temporal_meter_is_its_formula_and_grows_where_clients_persist() -> None:
    rng, everybody, d = np.random.default_rng(0), dict.fromkeys(range(6), 1.0), 300
    habit = rng.normal(size=(6, d))
    common = rng.normal(size=(30, d))
    vectors = {(t, i): (habit[i] + common[t]).astype(np.float32) for t in range(30) for i in range(6)}
    raw = [sketches(f"{t}", "raw", t, range(6)) for t in range(30)]
    found = temporal(account_of(vectors, raw, sums(30, everybody)), 0.8)
    b = np.array([m / np.linalg.norm(m) for t in range(30) if (m := mean(vectors, t, everybody)) is not None])
    for i in range(6):
        deltas = np.array([vectors[t, i] - mean(vectors, t, everybody) for t in range(30)])
        u = b.T @ np.linalg.inv(b @ b.T + 0.25 * np.eye(30)) @ np.sum(b * deltas, axis=1)
        truth = deltas.mean(axis=0)
        assert found[i] == pytest.approx((u @ truth) ** 2 / (u @ u) / (truth @ truth), abs=1e-6)
    few = temporal(account_of({of: v for of, v in vectors.items() if of[0] < 3}, raw[:3], sums(3, everybody)), 0.8)
    assert np.mean(list(found.values())) > 3 * np.mean(list(few.values()))
    offset = [sketches(f"{t}", "offset", t, range(6)) for t in range(30)]
    assert set(temporal(account_of(vectors, offset, sums(30, everybody)), 0.8).values()) == {0.0}


def test_one_round_tells_a_client_what_the_span_does() -> None:
    vectors, everybody = drawn(1, 6, 40), dict.fromkeys(range(6), 1.0)
    account = account_of(vectors, [sketches("s", "raw", 0, range(6))], sums(1, everybody))
    energy = span(account).energy
    assert temporal(account, 0.65) == pytest.approx({i: energy[0, "update", i] for i in range(6)}, abs=1e-9)


# --- participation ----------------------------------------------------------------------------------------------------


def of_rows(*rows: dict[int, float]) -> list[Opened]:
    return [Opened(t, "0", "update", row) for t, row in enumerate(rows)]


def test_fixed_cohorts_hide_each_client_in_its_cohort() -> None:
    cohorts = [dict.fromkeys(range(k, 24, 4), 1.0) for k in range(4)]
    found = participation(of_rows(*cohorts * 9), 0.65)
    assert set(found.leverage) == set(range(24))
    assert found.sums == 36
    assert list(found.leverage.values()) == pytest.approx([1 / 6] * 24)
    everybody = participation(of_rows(*[dict.fromkeys(range(24), 1.0)] * 9), 0.65)
    assert list(everybody.leverage.values()) == pytest.approx([1 / 24] * 24)
    assert max(everybody.information.values()) == pytest.approx(0, abs=1e-12)


def test_a_client_that_drops_out_of_one_of_two_rounds_is_isolated() -> None:
    everybody = dict.fromkeys(range(8), 1.0)
    found = participation(of_rows(everybody, dict.fromkeys(range(7), 1.0)), 0.65)
    assert found.leverage[7] == pytest.approx(1)
    assert [found.leverage[i] for i in range(7)] == pytest.approx([1 / 7] * 7)
    assert max(found.information, key=lambda i: found.information[i]) == 7


def test_random_sampling_isolates_everybody_in_the_end() -> None:
    rng = np.random.default_rng(0)
    rows = [dict.fromkeys(rng.choice(12, 3, replace=False).tolist(), 1.0) for _ in range(60)]
    found = participation(of_rows(*rows), 0.65)
    assert min(found.leverage.values()) == pytest.approx(1)
    assert min(found.information.values()) > 0.5


def test_receivers_are_accounts_of_their_own_and_clusters_are_one_but_for_what_sets_clients_apart() -> None:
    """Names of clusters may change from round to round, with the same clients in them."""
    halves = [dict.fromkeys(range(4), 1.0), dict.fromkeys(range(1, 4), 1.0)]
    renamed = [Opened(0, "a", "update", halves[0]), Opened(1, "b", "update", halves[1])]
    assert max(participation(renamed, 0.65).leverage.values()) == pytest.approx(1)
    assert max(participation(renamed, 0.65).information.values()) == pytest.approx(0)
    to_two = [Opened(0, "a", "update", halves[0], to=8), Opened(1, "a", "update", halves[1], to=9)]
    assert max(participation(to_two, 0.65).leverage.values()) == pytest.approx(1 / 3)
    to_one = [Opened(0, "a", "update", halves[0], to=8), Opened(1, "a", "update", halves[1], to=8)]
    assert max(participation(to_one, 0.65).leverage.values()) == pytest.approx(1)


def test_who_opens_a_sum_for_itself_takes_off_its_own_part() -> None:
    """Before: a receiver's part counted as unknown to it, so that others seemed better hidden than they were, and it less."""
    found = participation(
        [Opened(0, "a", "update", {0: 0.6, 1: 0.3, 2: 0.3}, to=0), Opened(0, "a", "update", {1: 1.0}, to=1)], 0.65
    )
    assert found.leverage == pytest.approx({1: 0.5, 2: 0.5})


def test_wild_scales_hide_nothing() -> None:
    for scale in (1.0, 1e-9, 1e-300, 1e300):
        rows = of_rows(dict.fromkeys(range(6), 1.0), {i: scale * (1.5 if i == 0 else 1.0) for i in range(6)})
        assert participation(rows, 0.65).leverage[0] == pytest.approx(1, abs=1e-6)


@given(st.integers(1, 12), st.integers(2, 7), st.floats(0.05, 0.95), st.integers(0, 10**6))
@settings(max_examples=60)
def test_participation_is_its_formulas(count: int, clients: int, rho: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, (count, clients)).astype(np.float64)
    weights[weights.sum(axis=1) == 0] = 1.0
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    centred = weights @ (np.eye(clients) - 1 / clients)
    noise = np.diag(np.square(weights).sum(axis=1)) * (1 - rho) / rho
    assert leverages(weights) == pytest.approx(np.diag(np.linalg.pinv(weights) @ weights), abs=1e-8)
    literal = np.diag(centred.T @ np.linalg.inv(centred @ centred.T + noise) @ centred)
    assert informations(weights, rho) == pytest.approx(literal, abs=1e-8)


def test_a_basis_is_orthonormal_and_known_sums_are_independent() -> None:
    vectors, everybody = drawn(3, 4, 20), dict.fromkeys(range(4), 1.0)
    account = account_of(vectors, [sketches("k", "raw", t, range(4)) for t in range(3)], sums(3, everybody, {0: 1.0, 1: 2.0}))
    found = known_sums(account, keys_of(account.sketched)[b"k"])
    basis = row_basis(found, 1e-9)
    assert found.shape == basis.shape == (6, 20)
    assert basis @ basis.T == pytest.approx(np.eye(6), abs=1e-12)
