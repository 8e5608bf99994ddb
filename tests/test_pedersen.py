"""Commitments that add up: known constants, the sum rule, and that nothing else opens them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.pedersen import BLINDING_BYTES, MOST_VALUE, PRIME, combined, pedersen

vectors = st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3)
blindings = st.binary(min_size=BLINDING_BYTES, max_size=BLINDING_BYTES).map(lambda data: int.from_bytes(data, "big"))


def floor_of_pi(bits: int) -> int:
    """floor(2^bits pi) by Machin's formula, with 200 bits to spare."""
    unit = 1 << bits + 200

    def arctan_of_inverse(x: int) -> int:
        power, total, n = unit // x, 0, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= x * x
            n += 2
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> 200


def test_the_prime_is_the_one_of_rfc_3526_and_safe() -> None:
    assert 2**2048 - 2**1984 - 1 + 2**64 * (floor_of_pi(1918) + 124476) == PRIME
    half = (PRIME - 1) // 2
    for base in (2, 3, 5, 7):
        assert pow(base, PRIME - 1, PRIME) == 1
        assert pow(base, half - 1, half) == 1


@pytest.mark.long
@given(st.lists(st.tuples(vectors, blindings), min_size=1, max_size=3))
@settings(max_examples=5)
def test_the_product_opens_to_the_sums(parts: list[tuple[list[int], int]]) -> None:
    product = combined(pedersen(values, blinding) for values, blinding in parts)
    sums = [sum(values[k] for values, _ in parts) for k in range(3)]
    blinding = sum(b for _, b in parts)
    assert product == pedersen(sums, blinding)
    for k in range(3):
        assert product != pedersen([*sums[:k], sums[k] + 1, *sums[k + 1 :]], blinding)
    assert product != pedersen(sums, blinding + 1)


def test_a_commitment_is_a_square_and_its_order_counts() -> None:
    found = pedersen([1, 2], 5)
    assert 0 < found < PRIME
    assert pow(found, (PRIME - 1) // 2, PRIME) == 1
    assert found != pedersen([2, 1], 5)
    assert pedersen([], 0) == combined([]) == 1


@pytest.mark.parametrize(("values", "blinding"), [([-1], 0), ([MOST_VALUE], 0), ([1], -1)])
def test_what_cannot_be_committed_to(values: list[int], blinding: int) -> None:
    with pytest.raises(ValueError, match="not negative"):
        pedersen(values, blinding)
