"""Two-party sharing and Gram triples: identities on random inputs, uniform shares, and the range at its edge.

`python tests/test_additive.py` measures.
"""

import dataclasses
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.additive import (
    AdditiveShare,
    GramBound,
    deal_gram_triple,
    difference,
    gram_share,
    keyed_share,
    multiply,
    reveal,
    reveal_gram,
    share,
)

KEY, DEALER = bytes(range(32)), bytes(range(1, 33))


EXTREMES = [
    limb * (1 + 2**bits + 2 ** (2 * bits)) % 2**64 for bits in (21, 22, 23) for limb in (2 ** (bits - 1), 2 ** (bits - 1) - 1)
]


def gram_of(rows, magnitude, key=KEY, dealer=DEALER):
    """The protocol on one page: dealer, two parties, one opening each way."""
    n, width = rows.shape
    halves = deal_gram_triple(n, width, dealer)
    shares = share(rows, magnitude, key)
    opened = reveal(*(difference(s, half) for s, half in zip(shares, halves, strict=True)))
    return reveal_gram(GramBound(width, magnitude), *(gram_share(opened, half) for half in halves))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 40), st.sampled_from([1, 1000, 2**28]), st.integers(0, 2**32))
def test_shares_add_up_and_the_gram_matrix_is_exact(n, width, magnitude, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-magnitude, magnitude, (n, width), endpoint=True)
    assert np.array_equal(reveal(*share(rows, magnitude, KEY)), rows)
    exact = [[sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]
    assert gram_of(rows, magnitude, rng.bytes(32), rng.bytes(32)).tolist() == exact


def test_a_public_linear_map_can_be_applied_to_the_shares():
    """What two servers do with shared updates: the projection is drawn afterwards and applied by each alone."""
    rng = np.random.default_rng(0)
    updates, projection = rng.integers(-(2**20), 2**20, (5, 300)), rng.integers(-8, 8, (300, 16))
    projected = [AdditiveShare(s.party, multiply(s.values, projection.view(np.uint64))) for s in share(updates, 2**20, KEY)]
    assert np.array_equal(reveal(*projected), updates @ projection)


@pytest.mark.parametrize("value", [0, 1, -(2**40)])
def test_one_share_is_uniform_whatever_is_shared(value):
    values = np.full(100_000, value, np.int64)
    for one in share(values, 2**40, KEY):
        ones = np.unpackbits(one.values.view(np.uint8).reshape(-1, 8), axis=1).sum(0, dtype=np.int64)
        assert np.abs(ones - 50_000).max() < 6 * math.sqrt(25_000)
        bytes_seen = np.bincount(one.values.view(np.uint8), minlength=256)
        assert ((bytes_seen - 3125.0) ** 2 / 3125).sum() < 255 + 6 * math.sqrt(2 * 255)


def test_the_opened_difference_and_each_gram_share_are_uniform():
    """All that a party sees beside its own halves; for rows that are all zero, where a leak would show at once."""
    rows = np.zeros((60, 400), np.int64)
    halves = deal_gram_triple(60, 400, DEALER)
    opened = reveal(*(difference(s, half) for s, half in zip(share(rows, 1, KEY), halves, strict=True)))
    for seen in (opened, *(gram_share(opened, half).values for half in halves)):
        ones = np.unpackbits(np.ascontiguousarray(seen).view(np.uint8).reshape(-1, 8), axis=1).sum(0, dtype=np.int64)
        assert np.abs(ones - seen.size / 2).max() < 6 * math.sqrt(seen.size / 4)


def test_a_triple_is_what_it_should_be_and_its_halves_are_unrelated():
    one, other = deal_gram_triple(7, 30, DEALER)
    a = one.mask + other.mask
    exact = [[sum(int(x) * int(y) for x, y in zip(p, q, strict=True)) % 2**64 for q in a] for p in a]
    assert (one.square + other.square).tolist() == exact
    assert len({one.mask.tobytes(), other.mask.tobytes(), deal_gram_triple(7, 30, KEY)[0].mask.tobytes()}) == 3


def test_party_one_needs_only_the_key():
    values = np.arange(12).reshape(3, 4)
    assert np.array_equal(share(values, 11, KEY)[1].values, keyed_share(KEY, (3, 4)).values)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (2, 1024, 3), (3, 1025, 2), (2, 3001, 2)])
@pytest.mark.parametrize("fill", ["random", 2**64 - 1, 2**63, *EXTREMES])
def test_the_product_is_exact_modulo_the_ring(shape, fill):
    """Against numpy's own wrapping product; the fills are the limbs' extremes over full strips."""
    n, k, m = shape
    rng = np.random.default_rng(k)
    left, right = (
        rng.integers(0, 2**64, s, np.uint64) if fill == "random" else np.full(s, fill, np.uint64) for s in ((n, k), (k, m))
    )
    assert np.array_equal(multiply(left, right), left @ right)
    assert int(multiply(left, right)[0, 0]) == sum(int(x) * int(y) for x, y in zip(left[0], right[:, 0], strict=True)) % 2**64


def test_the_largest_rows_within_the_bound_do_not_wrap():
    magnitude = math.isqrt((2**63 - 1) // 1024)
    rows = np.full((2, 1024), magnitude)
    rows[1] = -magnitude
    most = GramBound(1024, magnitude).largest
    assert gram_of(rows, magnitude).tolist() == [[most, -most], [-most, most]]


@pytest.mark.parametrize(("width", "magnitude"), [(1024, math.isqrt((2**63 - 1) // 1024) + 1), (2**21, 2**21), (3, 2**31)])
def test_a_refused_bound_names_the_widest_that_fits(width, magnitude):
    with pytest.raises(ValueError, match="change one: ") as error:
        GramBound(width, magnitude)
    ways = [way.split("=") for way in str(error.value).split("change one: ")[1].split(", ")]
    assert [name for name, _ in ways] == ["magnitude", "width"]
    for name, value in ways:
        GramBound(**{"width": width, "magnitude": magnitude, name: int(value)})
        with pytest.raises(ValueError, match="wrap around"):
            GramBound(**{"width": width, "magnitude": magnitude, name: int(value) + 1})


def test_values_out_of_range_are_refused_where_they_are_shared():
    for bad in (11, -11, -(2**63)):
        with pytest.raises(ValueError, match="exceeds the magnitude of 10"):
            share(np.array([0, bad]), 10, KEY)
    with pytest.raises(ValueError, match="int64"):
        share(np.zeros(3), 10, KEY)


def test_what_is_no_gram_matrix_is_refused():
    bound = GramBound(4, 10)

    def split_up(matrix):
        return share(np.array(matrix), 2**62, KEY)

    reveal_gram(bound, *split_up([[400, 20], [20, 1]]))
    for bad in ([[401, 0], [0, 1]], [[-1, 0], [0, 1]], [[4, 1], [0, 4]], [[4, 8], [8, 4]]):
        with pytest.raises(ValueError, match=r"within the bound|Cauchy"):
            reveal_gram(bound, *split_up(bad))


def test_a_false_share_is_seen_in_the_gram_matrix():
    halves = deal_gram_triple(3, 8, DEALER)
    shares = share(np.eye(3, 8, dtype=np.int64), 1, KEY)
    opened = reveal(*(difference(s, half) for s, half in zip(shares, halves, strict=True)))
    one, other = (gram_share(opened, half) for half in halves)
    with pytest.raises(ValueError, match="within the bound"):
        reveal_gram(GramBound(8, 1), one, dataclasses.replace(other, values=other.values ^ np.uint64(2**40)))


def test_parties_and_shapes_cannot_be_mixed_up():
    one, other = share(np.arange(6).reshape(2, 3), 10, KEY)
    halves = deal_gram_triple(2, 3, DEALER)
    for pair in ((one, one), (other, other), (one, keyed_share(KEY, (3, 2)))):
        with pytest.raises(ValueError, match="one share of each party"):
            reveal(*pair)
    with pytest.raises(ValueError, match="its own half"):
        difference(one, halves[1])
    with pytest.raises(ValueError, match="same shape"):
        difference(one, deal_gram_triple(3, 3, DEALER)[0])
    with pytest.raises(ValueError, match="shape"):
        gram_share(np.zeros((3, 2), np.int64), halves[0])


def test_secrets_do_not_print():
    assert repr(share(np.arange(3), 10, KEY)[0]) == "AdditiveShare(party=0)"
    assert repr(deal_gram_triple(1, 1, DEALER)[1]) == "GramTriple(party=1)"


def _measure():
    """Print CPU ms for n clients of 1024 coordinates: dealer, one party's opening and product, numpy's integer product."""
    for n in (32, 100, 1000):
        rows = np.random.default_rng(0).integers(-(2**20), 2**20, (n, 1024))
        halves, shares = deal_gram_triple(n, 1024, DEALER), share(rows, 2**20, KEY)
        opened = reveal(*(difference(s, half) for s, half in zip(shares, halves, strict=True)))
        work = {
            "share": lambda rows=rows: share(rows, 2**20, KEY),
            "deal": lambda n=n: deal_gram_triple(n, 1024, DEALER),
            "difference": lambda s=shares[0], half=halves[0]: difference(s, half),
            "gram share": lambda opened=opened, half=halves[0]: gram_share(opened, half),
            "one integer product": lambda a=shares[0].values: a @ a.T,
            "one limb product": lambda a=shares[0].values: multiply(a, a.T),
        }
        for name, call in work.items():
            times = []
            for _ in range(5):
                start = time.process_time()
                call()
                times.append(time.process_time() - start)
            print(f"{n} x 1024: {name} {1e3 * min(times):.2f} ms")


if __name__ == "__main__":
    _measure()
