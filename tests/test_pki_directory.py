"""The directory and the revocation list: what the authority did not sign, or signed in disorder, is not read."""

import re
import tracemalloc
from dataclasses import replace

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.protocol.pki import authority, directory, revocations
from cloister.protocol.pki.certificates import Untrusted
from cloister.protocol.pki.directory import Directory, Entry
from cloister.protocol.pki.names import CLIENT_USES, SERVER_USES, id_of, name_of
from cloister.protocol.pki.reading import Reader
from cloister.protocol.pki.revocations import RevocationList

from .pki_sample import DAY, NOW, Deployment, deployment


@pytest.fixture(scope="module")
def made() -> Deployment:
    return deployment()


def content_of(made: Deployment) -> list[object]:
    signed: list[object] = cbor2.loads(cbor2.loads(made.document())[0])
    return signed


def signed(made: Deployment, content: object) -> bytes:
    return authority.signed(made.key, directory.KIND, content if isinstance(content, bytes) else cbor2.dumps(content))


def test_what_was_signed_is_read_as_it_was(made: Deployment) -> None:
    found = made.directory
    assert found.entries == made.entries
    assert found.clients == (0, 1, 2)
    assert {use: set(who) for use, who in found.enrolled((0, 1, 2)).items()} == {use: {0, 1, 2} for use in CLIENT_USES}
    assert set(found.entries[-1].identities) == set(SERVER_USES)
    assert len(found.run) == 16 != deployment().directory.run


def test_the_encoding_is_of_the_content_alone(made: Deployment) -> None:
    first, again = cbor2.loads(made.document())[0], cbor2.loads(made.document())[0]
    backwards = directory.sign(made.key, made.header(), list(made.entries.values())[::-1])
    assert first == again == cbor2.loads(backwards)[0] == cbor2.dumps(cbor2.loads(first), canonical=True)


@pytest.mark.sweeps
def test_no_byte_can_be_altered_and_none_left_out(made: Deployment) -> None:
    document = directory.sign(made.key, made.header(), [made.entries[-1], made.entries[0]])
    Directory.open(document, made.authority, NOW)
    for at in range(len(document)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            altered = document[:at] + bytes([document[at] ^ flip]) + document[at + 1 :]
            with pytest.raises(Untrusted):
                Directory.open(altered, made.authority, NOW)
        with pytest.raises(Untrusted):
            Directory.open(document[:at], made.authority, NOW)
    with pytest.raises(Untrusted, match="something follows"):
        Directory.open(document + b"\0", made.authority, NOW)


@pytest.mark.sweeps
def test_what_reads_has_one_encoding_whoever_signed_it(made: Deployment) -> None:
    """With the authority's signature on every altered content: it is refused, or says something else in its one encoding."""
    content = cbor2.loads(directory.sign(made.key, made.header(), [made.entries[0]]))[0]
    read = 0
    for at in range(len(content)):
        for flip in (0x01, 0x10, 0x80):
            altered = content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]
            try:
                found = Directory.open(signed(made, altered), made.authority, NOW)
            except Untrusted:
                continue
            read += 1
            again = directory.sign(made.key, found.header, found.entries.values())
            assert cbor2.loads(again)[0] == altered != content
    assert read > 100  # serial numbers, keys and identities may be any


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_noise_is_refused_with_a_reason_and_never_an_other_error(noise: bytes) -> None:
    made = _made_once()
    for document in (noise, signed(made, noise), cbor2.dumps([noise, noise[:64].ljust(64, b"\0")])):
        with pytest.raises(Untrusted):
            Directory.open(document, made.authority, NOW)
        with pytest.raises(Untrusted):
            RevocationList.open(document, made.authority, NOW)


_MADE: list[Deployment] = []


def _made_once() -> Deployment:
    if not _MADE:
        _MADE.append(deployment())
    return _MADE[0]


@pytest.mark.parametrize("head", ["9b00000001ffffffff", "9a000186a3", "5b0000000fffffffff", "5a03ffffff", "9bffffffffffffffff"])
def test_a_declared_length_reserves_nothing(made: Deployment, head: str) -> None:
    items = content_of(made)[:6]
    inner = b"\x87" + b"".join(map(cbor2.dumps, items)) + bytes.fromhex(head)
    outer = [b"\x82" + bytes.fromhex(head) + b"\0" * 64, signed(made, inner)]
    tracemalloc.start()
    try:
        for document in outer:
            with pytest.raises(Untrusted):
                Directory.open(document, made.authority, NOW)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_document_over_its_limit_is_not_looked_at(made: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "MOST_BYTES", len(made.document()) - 1)
    with pytest.raises(Untrusted, match="over the limit"):
        Directory.open(made.document(), made.authority, NOW)


def test_another_authority_signs_nothing_of_ours(made: Deployment) -> None:
    other = deployment()
    with pytest.raises(Untrusted, match="not signed by this authority"):
        Directory.open(other.document(), made.authority, NOW)
    with pytest.raises(Untrusted, match="another run or authority"):  # the right key, for another run
        Directory.open(directory.sign(made.key, replace(made.header(), run="other"), made.entries.values()), made.authority, NOW)


def test_neither_document_passes_for_the_other(made: Deployment) -> None:
    with pytest.raises(Untrusted, match="not signed"):
        RevocationList.open(made.document(), made.authority, NOW)
    with pytest.raises(Untrusted, match="not signed"):
        Directory.open(revocations.sign(made.key, made.header(), {}), made.authority, NOW)


def test_time(made: Deployment) -> None:
    with pytest.raises(Untrusted, match=r"the directory expired at 2027-01-\d\d"):
        Directory.open(made.document(), made.authority, NOW + 2 * DAY)
    early = directory.sign(made.key, made.header(since=NOW + 5), made.entries.values())
    with pytest.raises(Untrusted, match="still to come"):
        Directory.open(early, made.authority, NOW)
    revoked = revocations.sign(made.key, made.header(), {})
    RevocationList.open(revoked, made.authority, NOW)
    with pytest.raises(Untrusted, match="the revocation list expired"):
        RevocationList.open(revoked, made.authority, NOW + 2 * DAY)
    with pytest.raises(Untrusted, match="authority's own certificate"):
        Directory.open(made.document(), made.authority, NOW + 400 * DAY)


def alike(made: Deployment) -> dict[str, tuple[Entry, Entry]]:
    """Two entries each, which have in common what no two may."""
    one, two = made.entries[0], made.entries[1]
    swapped = {**two.identities, "sums": one.identities["sums"]}
    within = {**two.identities, "sums": two.identities["pairs"]}
    return {
        "serial number": (one, replace(two, serial=one.serial)),
        "key": (one, replace(two, key=one.key)),
        "identity": (one, replace(two, identities=swapped)),
        "identity of": (one, replace(two, identities=within)),
        "ascending order": (one, replace(two, party=0)),
    }


@pytest.mark.parametrize("what", ["serial number", "key", "identity", "identity of", "ascending order"])
def test_nothing_is_there_twice(made: Deployment, what: str) -> None:
    pair = alike(made)[what]
    with pytest.raises(ValueError, match=what):
        directory.sign(made.key, made.header(), pair)
    forged = [*made.header().items, [entry.items for entry in pair]]
    with pytest.raises(Untrusted, match=what):
        Directory.open(signed(made, forged), made.authority, NOW)


def test_parties_out_of_order_and_another_format_are_refused(made: Deployment) -> None:
    items = content_of(made)
    assert isinstance(items[6], list)
    with pytest.raises(Untrusted, match="ascending"):
        Directory.open(signed(made, [*items[:6], items[6][::-1]]), made.authority, NOW)
    with pytest.raises(Untrusted, match="format 2 where this release reads format 1"):
        Directory.open(signed(made, [2, *items[1:]]), made.authority, NOW)


def test_an_older_one_is_refused_and_so_are_two_of_one_version(made: Deployment) -> None:
    first, second = (Directory.open(made.document(version), made.authority, NOW) for version in (1, 2))
    second.follows(first)
    second.follows(second)
    with pytest.raises(Untrusted, match="version 1, older than version 2"):
        first.follows(second)
    other = Directory.open(directory.sign(made.key, made.header(2), [made.entries[0]]), made.authority, NOW)
    with pytest.raises(Untrusted, match="two of version 2 of the directory"):
        other.follows(second)
    with pytest.raises(Untrusted, match="another authority"):
        deployment().directory.follows(first)

    old, new = made.revoked(0), made.revoked(0, 1, version=2)
    new.follows(old)
    with pytest.raises(Untrusted, match="older"):
        old.follows(new)
    with pytest.raises(Untrusted, match="two of version 1 of the revocation list"):
        made.revoked(1).follows(old)


def test_names_and_ids_are_one_to_one() -> None:
    for party in (-3, -2, -1, 0, 7, 2**31 - 1):
        assert id_of(name_of(party)) == party
    for name in (
        "client-01",
        "client--1",
        "client-2147483648",
        "client-",
        "Client-1",
        "server",
        "client-1 ",
        "client-\u0661",
        "",
    ):
        with pytest.raises(ValueError, match="no party's name"):
            id_of(name)
    for party in (-4, 2**31):
        with pytest.raises(ValueError, match=re.escape(f"{party} is no party's id")):
            name_of(party)


def test_clients_are_enrolled_for_all_that_any_protection_has_them_sign() -> None:
    from cloister.protocol.masked.clients import SUMS
    from cloister.protocol.pairs.roles import PAIR_SEED, PAIRS
    from cloister.protocol.work.maker import SEED

    assert set(CLIENT_USES) == {SUMS, PAIRS, PAIR_SEED, SEED}


@pytest.mark.parametrize("value", [0, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40])
def test_numbers_are_read_in_their_shortest_form_alone(value: int) -> None:
    assert Reader(cbor2.dumps(value), "it").integer(0, 2**40, "a number") == value
    assert Reader(cbor2.dumps(-1 - value), "it").integer(-1 - value, 0, "a number") == -1 - value
    for size, head in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if value < 1 << (8 * size):
            form = bytes([head]) + value.to_bytes(size, "big")
            if form != cbor2.dumps(value):
                with pytest.raises(ValueError, match="not written in the shortest form"):
                    Reader(form, "it").integer(0, 2**40, "a number")


def test_a_length_beyond_the_end_is_refused_where_it_is_declared() -> None:
    for reading in (
        lambda: Reader(b"\x43ab", "it").octets(0, 9, "a string"),
        lambda: Reader(b"\x63ab", "it").text(0, 9, "a text"),
        lambda: Reader(b"\x83\1\1", "it").items(0, 9, "a list"),
        lambda: Reader(b"\x19\1", "it").integer(0, 999, "a number"),
        lambda: Reader(b"", "it").integer(0, 9, "a number"),
    ):
        with pytest.raises(ValueError, match="it does not read: it ends early"):
            reading()
    with pytest.raises(ValueError, match="not UTF-8"):
        Reader(b"\x61\xff", "it").text(0, 9, "a text")
