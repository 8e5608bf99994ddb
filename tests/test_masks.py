"""Masks against the keystream they are read from, and the blockwise sum against plain modular arithmetic.

`python tests/test_masks.py` measures what a mask costs against its bare keystream.
"""

import time

import numpy as np
import pytest

from cloister.crypto.masks import add_masks, mask
from cloister.crypto.prg import keystream

RINGS = pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
BLOCK = 128 * 1024


def keys_of(count):
    return [bytes([i % 256, i // 256]) * 16 for i in range(count)]


@RINGS
@pytest.mark.parametrize("size", [0, 1, 3, BLOCK // 8, BLOCK // 8 + 1, 3 * BLOCK // 4 + 5])
def test_a_mask_is_the_keystream_read_as_little_endian_words(dtype, size):
    word = np.dtype(dtype).newbyteorder("<")
    expected = np.frombuffer(keystream(keys_of(2)[1], size * word.itemsize), word)
    assert np.array_equal(mask(keys_of(2)[1], size, dtype), expected)


def test_known_answer():
    """The first block is AES-256 of the zero counter under the zero key (FIPS 197 arithmetic; NIST's all-zero vector)."""
    assert mask(bytes(32), 4, np.uint32).astype("<u4").tobytes().hex() == "dc95c078a2408989ad48a21492842087"


@RINGS
@pytest.mark.parametrize("keys", [1, 64, 65, 130])
def test_adding_is_the_signed_sum_modulo_the_ring(dtype, keys):
    start = mask(b"start of the total".ljust(32), 40_000, dtype)
    signed = [(key, 1 if i % 3 else -1) for i, key in enumerate(keys_of(keys))]
    total = start.copy()
    add_masks(total, iter(signed))
    modulus = 2 ** (8 * total.itemsize)
    expected = [
        (int(start[at]) + sum(sign * int(mask(key, at + 1, dtype)[at]) for key, sign in signed)) % modulus
        for at in (0, 1, 16_383, 16_384, 32_767, 32_768, 39_999)
    ]
    assert [int(total[at]) for at in (0, 1, 16_383, 16_384, 32_767, 32_768, 39_999)] == expected
    add_masks(total, [(key, -sign) for key, sign in signed])
    assert np.array_equal(total, start)


@RINGS
def test_every_bit_of_the_key_counts(dtype):
    key = bytes(range(32))
    reference = mask(key, 16, dtype)
    for bit in range(256):
        other = bytearray(key)
        other[bit // 8] ^= 1 << bit % 8
        assert np.count_nonzero(mask(bytes(other), 16, dtype) != reference) >= 14


@RINGS
def test_a_mask_is_uniform_in_every_bit(dtype):
    words = mask(bytes(range(32)), 200_000, dtype)
    for bit in range(8 * words.itemsize):
        ones = int(np.count_nonzero(words >> dtype(bit) & dtype(1)))
        assert abs(ones - 100_000) < 6 * np.sqrt(50_000)


@pytest.mark.parametrize(
    ("signed_keys", "what"),
    [
        ([(bytes(32), 1), (bytes(31), 1)], "32 bytes"),
        ([(bytes(32), 1), (bytes([1] * 32), 0)], "added"),
        ([(bytes(32), 1), (bytes(32), -1)], "one mask"),
    ],
)
def test_a_bad_key_is_refused_before_anything_is_added(signed_keys, what):
    total = np.zeros(8, np.uint32)
    with pytest.raises(ValueError, match=what):
        add_masks(total, signed_keys)
    assert not total.any()


@pytest.mark.parametrize("total", [np.zeros(4, np.int64), np.zeros((2, 2), np.uint32), np.zeros(8, np.uint32)[::2]])
def test_another_array_is_refused(total):
    with pytest.raises(ValueError, match="contiguous"):
        add_masks(total, [(bytes(32), 1)])


def _milliseconds(work, repeats=9):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def _measure():
    """Print CPU ms per mask of 1e6 uint32: the bare stream into one buffer that is reused, an addition, and both by add_masks."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    keys, count = keys_of(31), 1_000_000
    total, zeros, buffer = np.zeros(count, np.uint32), bytes(4 * count), bytearray(4 * count + 16)
    words = np.frombuffer(buffer, np.uint32, count)

    def streams():
        for key in keys:
            Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update_into(zeros, buffer)

    def additions():
        for _ in keys:
            np.add(total, words, out=total)

    bare, add = _milliseconds(streams) / len(keys), _milliseconds(additions) / len(keys)
    both = _milliseconds(lambda: add_masks(total, [(key, 1) for key in keys])) / len(keys)
    print(f"keystream {bare:.3f}, addition {add:.3f}, add_masks {both:.3f} ms per mask of {count} uint32")
    print(f"add_masks costs {both / bare:.2f} x keystream, {both / (bare + add):.2f} x (keystream + addition)")


if __name__ == "__main__":
    _measure()
