"""Shamir sharing: any threshold recovers, bad shares and bad dealers are named, fewer shares say nothing.

`python tests/test_shamir.py` measures.
"""

import dataclasses
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.commitment import commit
from cloister.crypto.shamir import (
    PRIME,
    SHARE_BYTES,
    BadDealer,
    BadShare,
    Dealing,
    DealtShares,
    MaskKeyShare,
    NotRecovered,
    SelfSeedShare,
    TooFewShares,
    _terms,
    check_share,
    combine,
    combine_all,
    split,
)

SECRET = bytes(range(1, 33))
HOLDERS = (0, 3, 4, 9, 17, 2**31 - 1)


def test_the_field_is_prime():
    """Miller and Rabin with 64 fixed bases: composites pass with probability 4^-64."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 66):
        x = pow(base, odd, PRIME)
        assert x in (1, PRIME - 1) or any((x := x * x % PRIME) == PRIME - 1 for _ in range(twos - 1))
    assert 2**263 < PRIME < 2**264


@pytest.mark.parametrize("threshold", range(1, 7))
def test_any_threshold_of_shares_recovers(threshold):
    sharing = split(SelfSeedShare, SECRET, threshold, HOLDERS, b"context")
    for size in range(7):
        for chosen in itertools.combinations(sharing.shares, size):
            if size < threshold:
                with pytest.raises(TooFewShares, match=f"{size} good shares of {threshold}"):
                    combine(sharing.dealing, reversed(chosen))
            else:
                recovered = combine(sharing.dealing, reversed(chosen))
                assert (recovered.secret, recovered.bad) == (SECRET, ())


@settings(max_examples=30)
@given(st.data())
def test_any_sharing_recovers(data):
    holders = tuple(sorted(data.draw(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=40))))
    threshold = data.draw(st.integers(1, len(holders)))
    secret = data.draw(st.binary(min_size=32, max_size=32))
    sharing = split(MaskKeyShare, secret, threshold, holders, data.draw(st.binary(max_size=40)))
    for share in sharing.shares:
        check_share(sharing.dealing, share)
        assert MaskKeyShare.decode(share.encode()) == share
    assert combine(sharing.dealing, data.draw(st.permutations(sharing.shares))[:threshold]).secret == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_ends_of_the_range_recover(secret):
    sharing = split(SelfSeedShare, secret, 2, HOLDERS, b"")
    assert combine(sharing.dealing, sharing.shares[3:5]).secret == secret


def test_shares_are_on_one_polynomial_of_the_stated_degree():
    """Newton's divided differences over the field: zero from order `threshold` on, not before; the constant is the secret."""
    sharing = split(SelfSeedShare, SECRET, 4, HOLDERS, b"context")
    points = [holder + 1 for holder in HOLDERS]
    column = [int.from_bytes(share.value, "big") for share in sharing.shares]
    leading = [column[0]]
    for order in range(1, 6):
        column = [
            (b - a) * pow(points[i + order] - points[i], -1, PRIME) % PRIME for i, (a, b) in enumerate(itertools.pairwise(column))
        ]
        leading.append(column[0])
    assert leading[3] != 0
    assert leading[4:] == [0, 0]
    at_zero, product = 0, 1
    for value, point in zip(leading, points, strict=True):
        at_zero, product = (at_zero + value * product) % PRIME, product * -point % PRIME
    assert at_zero == int.from_bytes(SECRET, "big")


def tampered(share):
    return dataclasses.replace(share, value=share.value[:-1] + bytes([share.value[-1] ^ 1]))


@pytest.mark.parametrize("bad_count", [1, 2, 3])
def test_bad_shares_are_named_and_do_not_sink_the_secret(bad_count):
    sharing = split(SelfSeedShare, SECRET, 3, HOLDERS, b"context")
    handed_in = [tampered(s) if i < bad_count else s for i, s in enumerate(sharing.shares)]
    recovered = combine(sharing.dealing, handed_in)
    assert (recovered.secret, recovered.bad) == (SECRET, HOLDERS[:bad_count])


def test_too_many_bad_shares_are_named_too():
    sharing = split(SelfSeedShare, SECRET, 3, HOLDERS, b"context")
    with pytest.raises(TooFewShares, match="2 good shares of 3") as error:
        combine(sharing.dealing, [tampered(s) for s in sharing.shares[:4]] + list(sharing.shares[4:]))
    assert error.value.bad == HOLDERS[:4]


def substitutes(sharing):
    """Shares that are not holder 3's of this sharing, each in one way."""
    mine = sharing.shares[1]
    yield tampered(mine)
    yield dataclasses.replace(mine, salt=bytes(32))
    yield dataclasses.replace(mine, salt=b"")
    yield dataclasses.replace(mine, value=mine.value + b"\x00")
    yield dataclasses.replace(sharing.shares[2], holder=3)
    yield dataclasses.replace(mine, holder=5)
    for other in ((b"other", 3, HOLDERS), (b"context", 2, HOLDERS), (b"context", 3, HOLDERS[:-1])):
        yield split(SelfSeedShare, SECRET, other[1], other[2], other[0]).shares[1]
    yield MaskKeyShare(mine.holder, mine.value, mine.salt)
    yield split(MaskKeyShare, SECRET, 3, HOLDERS, b"context").shares[1]


def test_nothing_passes_for_another_share():
    sharing = split(SelfSeedShare, SECRET, 3, HOLDERS, b"context")
    for other in substitutes(sharing):
        with pytest.raises(BadShare) as error:
            check_share(sharing.dealing, other)
        assert error.value.holder == other.holder
        assert combine(sharing.dealing, [other, *sharing.shares[2:]]).bad == (other.holder,)


def test_one_share_handed_in_twice_counts_once():
    sharing = split(SelfSeedShare, SECRET, 3, HOLDERS, b"context")
    with pytest.raises(TooFewShares, match="2 good"):
        combine(sharing.dealing, [*sharing.shares[:2], *sharing.shares[:2]])


def cheat(values, threshold, salt=b"s" * 32):
    """A dealer that commits, correctly, to values of its own choice: every holder's check passes."""
    terms = _terms(SelfSeedShare, threshold, HOLDERS, b"context")
    shares = tuple(SelfSeedShare(h, v, salt) for h, v in zip(HOLDERS, values, strict=True))
    commitments = b"".join(commit(s.value, s.salt, terms + s.holder.to_bytes(4, "big")) for s in shares)
    return DealtShares(Dealing(SelfSeedShare, threshold, HOLDERS, b"context", commitments), shares)


def encoded(values):
    return [value.to_bytes(33, "big") for value in values]


CHEATS = {
    "two secrets": encoded([1, 2, 3, 4, 5, 7]),
    "a polynomial, but not the derived one": encoded([5 + 2 * (h + 1) + (h + 1) ** 2 for h in HOLDERS]),
    "a secret of more than 256 bits": encoded([2**256] * 6),
    "values of another length": [b"\x01"] * 6,
    "values outside the field": encoded([2**264 - 1] * 6),
}


@pytest.mark.parametrize("values", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheating_dealer_passes_every_check_on_receipt_and_is_blamed_whoever_reconstructs(values):
    sharing = cheat(values, 3)
    for share in sharing.shares:
        check_share(sharing.dealing, share)
    for chosen in itertools.combinations(sharing.shares, 3):
        with pytest.raises(BadDealer, match="dealer is guilty"):
            combine(sharing.dealing, chosen)


@pytest.mark.parametrize("at", range(6))
def test_one_false_commitment_convicts_the_dealer_even_if_that_share_is_not_used(at):
    honest = split(SelfSeedShare, SECRET, 3, HOLDERS, b"context")
    commitments = bytearray(honest.dealing.commitments)
    commitments[32 * at : 32 * (at + 1)] = bytes(32)
    dealing = dataclasses.replace(honest.dealing, commitments=bytes(commitments))
    with pytest.raises(BadShare):
        check_share(dealing, honest.shares[at])
    with pytest.raises(BadDealer):
        combine(dealing, [s for i, s in enumerate(honest.shares) if i != at])


def test_many_at_once_are_each_as_alone_and_a_failure_does_not_sink_the_others():
    sharings = [split(SelfSeedShare, bytes([i]) * 32, 3, HOLDERS, bytes([i])) for i in range(5)]
    requests = [(s.dealing, s.shares[i % 3 : i % 3 + 3]) for i, s in enumerate(sharings)]
    requests[1] = (sharings[1].dealing, sharings[1].shares[:2])
    requests[2] = (cheat(CHEATS["two secrets"], 3).dealing, cheat(CHEATS["two secrets"], 3).shares)
    requests[4] = (sharings[4].dealing, [tampered(sharings[4].shares[0]), *sharings[4].shares[1:]])
    few, cheated = combine_all(requests)[1:3]
    assert isinstance(few, TooFewShares)
    assert isinstance(cheated, BadDealer)
    for i in (0, 3, 4):
        assert combine_all(requests)[i] == combine(*requests[i])
        assert combine(*requests[i]).secret == bytes([i]) * 32
    assert combine_all([]) == ()
    assert all(isinstance(o, NotRecovered) for o in combine_all([requests[1]]))


def test_fewer_shares_than_the_threshold_are_uniform_whatever_the_secret():
    """Bits of t - 1 shares of sequential secrets: each is a fair coin, and two such shares are uncorrelated."""
    secrets = [i.to_bytes(32, "big") for i in range(1500)]
    pairs = [split(SelfSeedShare, s, 3, HOLDERS, b"context").shares[:2] for s in secrets]
    bits = np.array([np.unpackbits(np.frombuffer(a.value + b.value, np.uint8)) for a, b in pairs]).astype(float)
    deviation = np.sqrt(0.25 / len(secrets))
    assert np.abs(bits.mean(0) - 0.5).max() < 5.5 * deviation
    assert np.abs(np.corrcoef(bits[:, 200:328].T) - np.eye(128)).max() < 6 / np.sqrt(len(secrets))


def test_contexts_kinds_and_terms_give_unrelated_shares_of_one_secret():
    sharings = [
        split(SelfSeedShare, SECRET, 3, HOLDERS, b"context"),
        split(SelfSeedShare, SECRET, 3, HOLDERS, b"another"),
        split(MaskKeyShare, SECRET, 3, HOLDERS, b"context"),
        split(SelfSeedShare, SECRET, 4, HOLDERS, b"context"),
        split(SelfSeedShare, SECRET, 3, HOLDERS[:-1], b"context"),
    ]
    assert len({s.shares[0].value for s in sharings}) == len(sharings)
    assert len({s.shares[0].salt for s in sharings}) == len(sharings)
    assert len({s.dealing.commitments[:32] for s in sharings}) == len(sharings)


def test_the_encoding_is_exact_and_of_one_size():
    share = split(SelfSeedShare, SECRET, 2, HOLDERS, b"").shares[-1]
    content = share.encode()
    assert len(content) == SHARE_BYTES == 70
    for bad in (b"", content[:-1], content + b"\x00", b"\x00" + content[1:], content[:1] + b"\x80" + content[2:]):
        with pytest.raises(ValueError, match="SelfSeedShare"):
            SelfSeedShare.decode(bad)
    with pytest.raises(ValueError, match="MaskKeyShare"):
        MaskKeyShare.decode(content)
    beyond = content[:5] + PRIME.to_bytes(33, "big") + content[38:]
    with pytest.raises(ValueError, match="out of range"):
        SelfSeedShare.decode(beyond)


def test_secrets_do_not_print():
    sharing = split(SelfSeedShare, SECRET, 2, HOLDERS, b"context")
    shown = repr(sharing) + repr(sharing.shares[0]) + repr(combine(sharing.dealing, sharing.shares))
    for secret in (SECRET, *(s.value for s in sharing.shares), *(s.salt for s in sharing.shares)):
        assert repr(secret)[2:12] not in shown
        assert secret.hex() not in shown


@pytest.mark.parametrize(
    ("secret", "threshold", "holders", "what"),
    [
        (bytes(31), 2, (1, 2), "32 bytes"),
        (SECRET, 0, (1, 2), "threshold 0"),
        (SECRET, 3, (1, 2), "threshold 3"),
        (SECRET, 1, (), "threshold 1"),
        (SECRET, 1, (2, 1), "ascending"),
        (SECRET, 1, (1, 1), "ascending"),
        (SECRET, 1, (-1, 1), "ascending"),
        (SECRET, 1, (1, 2**31), "ascending"),
    ],
)
def test_impossible_terms_are_refused(secret, threshold, holders, what):
    with pytest.raises(ValueError, match=what):
        split(SelfSeedShare, secret, threshold, holders, b"")


def test_a_dealing_from_the_wire_is_checked():
    good = split(SelfSeedShare, SECRET, 2, HOLDERS, b"").dealing
    wrong = [{"commitments": of} for of in (good.commitments[:-1], bytes(6), b"")]
    for change in (*wrong, {"threshold": 7}, {"holders": (1,)}):
        with pytest.raises(ValueError, match=r"commitment|threshold"):
            dataclasses.replace(good, **change)


def _measure():
    """Print CPU ms of verifiable sharing: split with commitments; combine with all checks, alone and among 32."""

    def milliseconds(work):
        times = []
        for _ in range(20):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return 1e3 * min(times)

    for threshold, count in ((6, 12), (17, 30), (21, 32), (66, 100)):
        holders = range(count)
        sharing = split(SelfSeedShare, SECRET, threshold, holders, b"")
        many = [split(SelfSeedShare, bytes([i]) * 32, threshold, holders, b"") for i in range(32)]
        requests = [(s.dealing, s.shares[:threshold]) for s in many]
        splitting = milliseconds(lambda t=threshold, h=holders: split(SelfSeedShare, SECRET, t, h, b""))
        alone = milliseconds(lambda s=sharing, t=threshold: combine(s.dealing, s.shares[:t]))
        batch = milliseconds(lambda r=requests: combine_all(r)) / 32
        print(f"{threshold} of {count}: split {splitting:.3f}, combine {alone:.3f}, in a batch {batch:.3f} ms each")


if __name__ == "__main__":
    _measure()
