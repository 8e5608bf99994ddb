"""Messages: one encoding each, and everything else is refused with blame for the link it came over."""

import math
import re
import struct
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.protocol.choosing.messages import Choice, Offer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import MAX_ID, MAX_ROSTER, SERVER, Session
from cloister.protocol.masked.messages import MaskedInput
from cloister.protocol.messages import decode
from cloister.protocol.seeding.messages import Advertise, Roster, SealedSeed, SeedQuorum, SeedTag
from cloister.protocol.wire import messages as messages_module
from cloister.protocol.wire.codec import Envelope, encode, encoding_of, plain_in
from cloister.protocol.wire.messages import MOST_SHARES, Declined, Discard, Mean, OffsetSketched, Ready, Retain, Task, Upload
from cloister.protocol.wire.recipes import Holds, Lend, Lent, Recipe, RoundOver
from cloister.protocol.wire.scores import Evaluate, Score

LINK = 7
LIMIT = 1 << 20
ids = st.integers(0, MAX_ID)
parties = st.integers(SERVER, MAX_ID)
floats = st.integers(0, 20).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n))
some_floats = st.integers(1, 20).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n))
octets = {n: st.binary(min_size=n, max_size=n) for n in (16, 32, 48, 64)}


def text(high):
    return st.text(st.characters(codec="utf-8"), min_size=1, max_size=high)


cohorts = st.sets(ids, min_size=1, max_size=30).map(lambda found: tuple(sorted(found)))
tasks = st.builds(
    Task,
    protocol=text(64),
    run=octets[16],
    round=st.integers(0, 2**31 - 1),
    cluster=text(256),
    roster=cohorts,
    threshold=st.integers(1, MAX_ROSTER),
    work=text(32),
    models=st.lists(text(256), min_size=1, max_size=64).map(tuple),
    own=st.one_of(st.just(""), text(256)),
    later=st.integers(0, 1),
    most=st.integers(0, MOST_SHARES),
    vector=floats,
)
octets |= {96: st.binary(min_size=96, max_size=96)}


def one_each(size):
    """Clients, and as many strings of bytes."""
    return cohorts.flatmap(lambda found: st.tuples(st.just(found), st.tuples(*[octets[size]] * len(found))))


offers = st.lists(st.tuples(text(256), some_floats), min_size=1, max_size=5).flatmap(
    lambda models: st.builds(
        Offer,
        protocol=text(64),
        run=octets[16],
        round=st.integers(0, 2**31 - 1),
        cluster=text(256),
        roster=cohorts,
        threshold=st.integers(1, MAX_ROSTER),
        names=st.just(tuple(name for name, _ in models)),
        vectors=st.sampled_from([(), tuple(vector for _, vector in models)]),
    )
)
messages = {
    Task: tasks,
    Upload: st.builds(Upload, some_floats, st.integers(1, 2**40)),
    Mean: st.builds(Mean, text(256), some_floats),
    Advertise: st.builds(Advertise, octets[32], octets[64]),
    Roster: one_each(96).map(lambda both: Roster(*both)),
    SealedSeed: st.builds(SealedSeed, ids, ids, octets[32], octets[64], octets[32], octets[48]),
    SeedTag: st.builds(SeedTag, octets[32], octets[64]),
    SeedQuorum: st.tuples(octets[32], one_each(64)).map(lambda both: SeedQuorum(both[0], *both[1])),
    Ready: st.just(Ready()),
    Declined: st.builds(Declined, text(200)),
    Offer: offers,
    Choice: st.builds(Choice, st.integers(0, 1023)),
    OffsetSketched: st.integers(1, 6).flatmap(lambda n: st.binary(min_size=8 * n, max_size=8 * n)).map(OffsetSketched),
    Retain: st.builds(Retain, st.integers(0, 1), octets[32], text(256)),
    Discard: st.builds(Discard, st.lists(text(256), min_size=1, max_size=5).map(tuple)),
}
some_names = st.lists(text(256), min_size=1, max_size=5).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: struct.pack(">d", x))
ONE = struct.pack(">d", 1.0)
messages |= {
    Recipe: st.one_of(
        some_names.flatmap(
            lambda names: st.builds(
                Recipe, text(256), st.just(names), st.lists(finite, min_size=len(names), max_size=len(names)).map(b"".join)
            )
        ),
        st.builds(Recipe, text(256), text(256).map(lambda n: (n,)), st.just(ONE), text(256), st.just(""), finite),
        st.builds(Recipe, text(256), text(256).map(lambda n: (n,)), st.just(ONE), st.just(""), text(256)),
    ),
    Holds: st.builds(Holds, some_names),
    Lend: st.builds(Lend, text(256)),
    Lent: st.builds(Lent, text(256), st.integers(-1, 2**31 - 1), st.sampled_from([b"", bytes(32)]), some_floats),
    RoundOver: st.builds(RoundOver, st.one_of(st.just(()), some_names)),
    Evaluate: st.builds(Evaluate, st.integers(1, 2**31 - 1), some_names),
    Score: st.one_of(
        st.just(Score(0)),
        st.tuples(st.integers(1, 2**40), st.floats(0, 1), st.floats(0, None, allow_nan=False).map(abs), st.integers(0, 63)).map(
            lambda of: Score(of[0], int(of[0] * of[1]), struct.pack(">d", of[2]), of[3])
        ),
    ),
}
envelopes = st.builds(Envelope, octets[32], parties, parties, st.one_of(*messages.values()))

TASK = Task("uploads/update", bytes(16), 3, "root", (1, 5, 9), 2, "update", ("init",), bytes(8))
RETAIN, DISCARD = Retain(1, bytes(32), "root@3/update/kept"), Discard(("root@3/update/kept",))
EXAMPLES = [
    TASK,
    Upload(bytes(12), 7),
    Mean("root@3", bytes(12)),
    Advertise(bytes(32), bytes(64)),
    Roster((1, 5), (bytes(96),) * 2),
    SealedSeed(4, 2, bytes(32), bytes(64), bytes(32), bytes(48)),
    Ready(),
    Offer("choosing", bytes(16), 3, "choice", (1, 5, 9), 1, ("root@3", "init"), (bytes(8), bytes(8))),
    Choice(1),
    Declined("the vector is not finite"),
    SeedTag(bytes(32), bytes(64)),
    SeedQuorum(bytes(32), (1, 5), (bytes(64),) * 2),
    OffsetSketched(bytes(16)),
    RETAIN,
    DISCARD,
    Recipe("root@3", ("init",), ONE, "root@3"),
    Holds(("root@3",)),
    Lend("root@3"),
    Lent("root@3", 4, bytes(32), bytes(28)),
    RoundOver(("root@3",)),
    Evaluate(3, ("root@3",)),
    Score(2**24, 2**20, struct.pack(">d", 0.5), 2),
]


def items_of(message, session=bytes(32), sender=SERVER, receiver=LINK):
    """The list that the message's encoding encodes, to break one item of it."""
    return cbor2.loads(encode(Envelope(session, sender, receiver, message)))


def refused(data, match=None, limit=LIMIT):
    with pytest.raises(ProtocolError, match=match) as failure:
        decode(data, LINK, limit)
    assert failure.value.blame == LINK
    assert "\n" not in failure.value.reason


# --- the one encoding -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", messages)
@given(data=st.data())
@settings(max_examples=60)
def test_every_message_survives_its_encoding(kind, data):
    envelope = Envelope(data.draw(octets[32]), data.draw(parties), data.draw(parties), data.draw(messages[kind]))
    sent = encode(envelope)
    assert decode(sent, LINK, len(sent)) == envelope
    assert encode(decode(sent, LINK, len(sent))) == sent


@given(envelopes, envelopes)
@settings(max_examples=60)
def test_different_envelopes_have_different_bytes(one, other):
    assert (encode(one) == encode(other)) == (one == other)


def test_the_encoding_is_the_list_of_version_session_parties_kind_and_fields():
    for message in EXAMPLES:
        body = [list(v) if isinstance(v, tuple) else v for v in (getattr(message, f.name) for f in fields(message))]
        assert items_of(message) == [2, bytes(32), SERVER, LINK, message.kind, *body]
    assert sorted(m.kind for m in EXAMPLES) == [*range(1, 20), 32, 33, 34]


def test_known_bytes_of_an_upload():
    one = struct.pack("<f", 1.0)
    sent = encode(Envelope(bytes(32), 5, SERVER, Upload(one, 300)))
    assert sent.hex() == "87025820" + "00" * 32 + "052002440000803f19012c"


def test_vectors_do_not_print():
    for message in (
        TASK,
        Upload(b"\x11" * 8, 1),
        Mean("m", b"\x11" * 8),
        SealedSeed(1, 2, bytes(32), bytes(64), bytes(32), b"\x11" * 48),
    ):
        assert "vector" not in repr(message)
        assert "x11" not in repr(message)


def test_the_schema_names_the_same_kinds_and_fields():
    schema = (Path(messages_module.__file__).parent / "messages.cddl").read_text()
    rules = re.findall(r"^[a-z-]+ = \[\n  version: 2, [^\n]*, kind: (\d+),\n(.*?)^\]", schema, re.M | re.S)
    found = {int(kind): re.findall(r"^  (\w+):", body, re.M) for kind, body in rules}
    found = {kind: names for kind, names in found.items() if kind in {m.kind for m in EXAMPLES}}
    assert found == {m.kind: [f.name for f in fields(m)] for m in EXAMPLES}
    (hashed,) = re.findall(r"^hashed-session = \[\n(.*?)^\]", schema, re.M | re.S)
    assert re.findall(r"^  (\w+):", hashed, re.M) == ["version", *(f.name for f in fields(Session) if f.init)]


# --- what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_size_is_checked_before_anything_is_read(message):
    sent = encode(Envelope(bytes(32), SERVER, LINK, message))
    decode(sent, LINK, len(sent))
    refused(sent, "over the limit", len(sent) - 1)

    class Untouchable(bytes):
        def __getitem__(self, _):
            raise AssertionError("read before its size was checked")

    refused(Untouchable(sent), "over the limit", len(sent) - 1)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_cut_and_trailing_bytes_are_refused(message):
    sent = encode(Envelope(bytes(32), SERVER, LINK, message))
    for n in range(len(sent)):
        refused(sent[:n])
    for tail in (b"\x00", b"\xf6", sent):
        refused(sent + tail)


def wider(data, at):
    """The same item with its head one size longer than needed: valid CBOR, not deterministic."""
    major, short = data[at] & 0xE0, data[at] & 31
    if short < 24:
        return data[:at] + bytes([major | 24, short]) + data[at + 1 :]
    size = 1 << (short - 24)
    return data[:at] + bytes([major | short + 1]) + bytes(size) + data[at + 1 :]


def test_longer_heads_than_needed_are_refused():
    items = [2, bytes(32), 5, SERVER, 2, bytes(4), 300]
    sent = cbor2.dumps(items, canonical=True)
    assert decode(sent, LINK, LIMIT).message == Upload(bytes(4), 300)
    heads, at = [0], 1
    for item in items:
        heads.append(at)
        at += len(cbor2.dumps(item, canonical=True))
    for head in heads:
        other = wider(sent, head)
        assert cbor2.loads(other) == items  # the same content
        refused(other)


def test_indefinite_lengths_are_refused():
    items = items_of(TASK)
    packed = [cbor2.dumps(item, canonical=True) for item in items]
    whole = bytes([0x80 | len(items)]) + b"".join(packed)
    assert decode(whole, LINK, LIMIT).message == TASK
    refused(b"\x9f" + b"".join(packed) + b"\xff")
    for at, indefinite in (
        (1, b"\x5f" + cbor2.dumps(bytes(32)) + b"\xff"),
        (5, b"\x7f" + cbor2.dumps("uploads/update") + b"\xff"),
        (9, b"\x9f\x01\x05\x09\xff"),
        (13, b"\x5f\x44" + bytes(4) + b"\x44" + bytes(4) + b"\xff"),
    ):
        parts = list(packed)
        parts[at] = indefinite
        data = bytes([0x80 | len(items)]) + b"".join(parts)
        assert cbor2.loads(data) == items
        refused(data)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_no_field_takes_another_type(message):
    strangers = [
        None,
        True,
        False,
        1.0,
        -0.0,
        math.nan,
        math.inf,
        1,
        "a",
        b"a",
        [],
        [[]],
        [1.0],
        [True],
        ["a"],
        [[1]],
        {},
        {1: 2},
    ]
    strangers += [
        cbor2.undefined,
        cbor2.CBORSimpleValue(0),
        cbor2.CBORTag(2, b"\x01"),
        cbor2.CBORTag(24, b"\x01"),
        2**64,
        -(2**64) - 1,
    ]
    strangers += [cbor2.CBORTag(258, [1]), cbor2.CBORTag(55799, 1), cbor2.CBORTag(4, [1, 2]), cbor2.CBORTag(99, 1)]
    items = items_of(message)
    for at in range(len(items)):
        for stranger in strangers:
            if type(stranger) is type(items[at]) and stranger in (1, "a", b"a"):
                continue  # ranges have their own test
            if (
                type(items[at]) is list
                and all(type(item) is str for item in items[at])
                and stranger == ["a"]
                and len(items[at]) == 1
            ):
                continue  # the name of a model, or a handle
            if type(message) is RoundOver and stranger == []:
                continue  # none
            if type(message) is Offer and at == len(items) - 1 and stranger == []:
                continue  # where clients own the models, none comes with the offer
            refused(cbor2.dumps([*items[:at], stranger, *items[at + 1 :]], canonical=True))


def test_booleans_and_floats_do_not_pass_for_integers():
    for at, value in ((0, True), (0, 1.0), (2, False), (3, 7.0), (4, 2.0), (6, True), (6, 5.0)):
        items = items_of(Upload(bytes(4), 5))
        items[at] = value
        refused(cbor2.dumps(items, canonical=True))


def test_tags_are_refused_wherever_they_stand():
    sent = encode(Envelope(bytes(32), SERVER, LINK, TASK))
    refused(b"\xd9\xd9\xf7" + sent)  # the self-described CBOR tag
    for tag in (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799, 2**32, 2**63):
        for at in range(14):
            items = items_of(TASK)
            items[at] = cbor2.CBORTag(tag, items[at])
            refused(cbor2.dumps(items))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_wrong_arity_is_refused(message):
    items = items_of(message)
    for n in range(len(items)):
        refused(cbor2.dumps(items[:n], canonical=True))
    for more in (0, b"", None, "a", []):
        refused(cbor2.dumps([*items, more], canonical=True))
    refused(cbor2.dumps([*items, *[0] * 30], canonical=True))


@pytest.mark.parametrize("kind", [0, 7, 8, -1, 255, 2**32, 2**63, "1", None, b"\x01"])
def test_unknown_kinds_are_refused(kind):
    items = items_of(TASK)
    items[4] = kind
    refused(cbor2.dumps(items, canonical=True))


@pytest.mark.parametrize("version", [0, 1, 3, -1, 2**40, "1", b"1", None])
def test_other_versions_are_refused(version):
    items = items_of(TASK)
    items[0] = version
    refused(cbor2.dumps(items, canonical=True))


OUT_OF_RANGE = [
    *[(RETAIN, 5, v) for v in (-1, 2)],
    *[(RETAIN, 6, v) for v in (b"", bytes(31))],
    *[(RETAIN, 7, v) for v in ("", "a" * 257)],
    *[(DISCARD, 5, v) for v in ([], ["a"] * 1025, [""], [1])],
    *[(EXAMPLES[1], 1, v) for v in (b"", bytes(31), bytes(33))],
    *[(EXAMPLES[1], at, v) for at in (2, 3) for v in (-4, MAX_ID + 1, 2**63, -(2**63))],
    *[(TASK, 5, v) for v in ("", "a" * 65)],
    *[(TASK, 6, v) for v in (b"", bytes(15), bytes(17))],
    *[(TASK, 7, v) for v in (-1, 2**31)],
    *[(TASK, 8, v) for v in ("", "a" * 257)],
    *[(TASK, 9, v) for v in ([], [-1], [MAX_ID + 1], [1, True], [1, 2.0], [b"1"], [[1]], 1)],
    *[(TASK, 10, v) for v in (0, -1, MAX_ROSTER + 1)],
    *[(TASK, 11, v) for v in ("", "a" * 33)],
    *[(TASK, 12, v) for v in ([], [""], ["a" * 257], ["a"] * 65, [1], "a")],
    *[(TASK, 14, v) for v in ("a" * 257, 1)],
    *[(TASK, 15, v) for v in (-1, 2)],
    *[(TASK, 16, v) for v in (-1, 2**24 + 1)],
    *[(EXAMPLES[9], 5, v) for v in ("", "a" * 201)],
    *[(TASK, 13, v) for v in (bytes(1), bytes(3), bytes(6))],
    *[(EXAMPLES[1], 5, v) for v in (b"", bytes(3), bytes(5))],
    *[(EXAMPLES[1], 6, v) for v in (0, -1, 2**40 + 1)],
    *[(EXAMPLES[2], 5, v) for v in ("", "a" * 257)],
    *[(EXAMPLES[2], 6, v) for v in (b"", bytes(3), bytes(6))],
    *[(EXAMPLES[3], 5, v) for v in (b"", bytes(31), bytes(33))],
    *[(EXAMPLES[3], 6, v) for v in (b"", bytes(63), bytes(65))],
    *[(EXAMPLES[4], 5, v) for v in ([], [1], [5, 1], [1, 1], [-1, 5], [1, MAX_ID + 1], [1, 5, 9], [bytes(32)] * 2)],
    *[(EXAMPLES[4], 6, v) for v in ([], [bytes(96)], [bytes(96), bytes(97)], [bytes(95)] * 2, [1, 2], [bytes(96)] * 3)],
    *[(EXAMPLES[5], at, v) for at in (5, 6) for v in (-1, MAX_ID + 1)],
    *[(EXAMPLES[5], at, v) for at in (7, 9) for v in (b"", bytes(31), bytes(33))],
    *[(EXAMPLES[at], 5, v) for at in (10, 11) for v in (b"", bytes(31), bytes(33))],
    *[(EXAMPLES[10], 6, v) for v in (b"", bytes(63), bytes(65))],
    *[(EXAMPLES[11], 6, v) for v in ([], [1], [5, 1], [1, 1], [-1, 5], [1, 5, 9])],
    *[(EXAMPLES[11], 7, v) for v in ([], [bytes(64)], [bytes(63)] * 2, [1, 2], [bytes(64)] * 3)],
    *[(EXAMPLES[7], 11, v) for v in ([], [""], [1], ["a"], ["a" * 257, "b"], ["a"] * 1025)],
    *[(EXAMPLES[7], 12, v) for v in ([b""], [bytes(8)], [bytes(8), bytes(3)], [bytes(8), 1], [bytes(8)] * 3)],
    *[(EXAMPLES[8], 5, v) for v in (-1, 1024)],
    *[(EXAMPLES[5], 10, v) for v in (b"", bytes(47), bytes(49))],
]


@pytest.mark.parametrize(("message", "at", "value"), OUT_OF_RANGE)
def test_fields_out_of_range_are_refused_on_both_sides(message, at, value):
    items = items_of(message)
    items[at] = value
    refused(cbor2.dumps(items, canonical=True))
    if at > 4:
        body = [tuple(v) if isinstance(v, list) else v for v in items[5:]]
        with pytest.raises(ValueError):
            type(message)(*body)


def test_text_is_counted_in_characters_and_must_be_utf8():
    items = items_of(TASK)
    items[8] = "\U0001f600" * 256
    assert decode(cbor2.dumps(items, canonical=True), LINK, LIMIT).message.cluster == items[8]
    broken = encode(Envelope(bytes(32), SERVER, LINK, TASK)).replace(b"root", b"ro\xff\xfe")
    refused(broken)


def hostile():
    """Messages whose content costs far more memory than bytes, and heads that promise what does not follow."""
    n = 70_000
    many = b"\x9a" + struct.pack(">I", n)
    head = encode(Envelope(bytes(32), 1, SERVER, Upload(bytes(4), 1)))[:38]  # up to the kind
    for item in (
        b"\xa0",
        b"\x80",
        b"\x81\x80",
        b"\x81\x81\x80",
        b"\x42ab",
        b"\x63\xe2\x82\xac",
        b"\xf9\x7e\x00",
        b"\x1a\x00\x01\x00\x00",
    ):
        yield many + item * n
        for copies in (1, 3):
            yield head + (many + item * n) * copies
    for major in (2, 3, 4, 5):
        for width, count in ((26, b"\xff" * 4), (27, b"\xff" * 8), (27, b"\x00\x00\x01" + bytes(5))):
            yield bytes([major << 5 | width]) + count
            yield head + bytes([major << 5 | width]) + count
    yield b"\x81" * 100_000
    yield b"\xc1" * 100_000


@pytest.mark.slow
def test_hostile_messages_cost_no_more_than_a_few_times_their_size():
    room = 6_000_000  # of the list items that a legal roster could have
    for data in hostile():
        tracemalloc.start()
        refused(data, limit=1 << 24)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * len(data) + room, data[:60]


def test_a_list_of_models_is_copied_once_on_either_side():
    session = Session("choosing", bytes(16), 0, "root", (1, 2), 1)
    models = tuple(bytes([k]) * (1 << 20) for k in range(4))
    offer = Offer(session.protocol, session.run, 0, "root", (1, 2), 1, ("a", "b", "c", "d"), models)
    envelope = Envelope(session.digest, SERVER, 1, offer)
    tracemalloc.start()
    sent = encode(envelope)
    encoding = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    assert decode(sent, SERVER, len(sent)) == envelope
    decoding = tracemalloc.get_traced_memory()[1] - held
    tracemalloc.stop()
    assert sent == cbor2.dumps(cbor2.loads(sent), canonical=True)
    assert encoding < 1.1 * len(sent)
    assert decoding < 1.1 * len(sent)


def test_a_roster_of_the_largest_size_passes_and_one_more_does_not():
    roster = tuple(range(MAX_ROSTER))
    session = Session("uploads/update", bytes(16), 0, "root", roster, 1)
    task = Task(session.protocol, session.run, 0, "root", roster, 1, "update", ("init",), b"")
    sent = encode(Envelope(session.digest, SERVER, 1, task))
    assert decode(sent, SERVER, len(sent)).message == task
    items = cbor2.loads(sent)
    items[9].append(MAX_ROSTER)
    refused(cbor2.dumps(items, canonical=True))


# --- sessions -------------------------------------------------------------------------------------------------------------

SESSION = {"protocol": "p", "run": bytes(16), "round": 1, "cluster": "c", "roster": (1, 2, 3), "threshold": 2}


def test_every_part_of_a_session_changes_its_digest():
    others = [
        {"protocol": "q"},
        {"run": bytes(15) + b"\x01"},
        {"round": 2},
        {"cluster": "d"},
        {"roster": (1, 2, 4)},
        {"roster": (1, 2)},
        {"threshold": 3},
        {"protocol": "pc", "cluster": "c"},
    ]
    digests = {Session(**{**SESSION, **other}).digest for other in ({}, *others)}
    assert len(digests) == len(others) + 1
    assert all(len(digest) == 32 for digest in digests)


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": bytes(15)},
        {"protocol": ""},
        {"protocol": "p" * 65},
        {"cluster": ""},
        {"cluster": "c" * 257},
        {"round": -1},
        {"round": 2**31},
        {"roster": ()},
        {"roster": (2, 1)},
        {"roster": (1, 1)},
        {"roster": (-1, 1)},
        {"roster": (1, MAX_ID + 1)},
        {"roster": tuple(range(MAX_ROSTER + 1))},
        {"threshold": 0},
        {"threshold": 4},
    ],
)
def test_sessions_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError):
        Session(**{**SESSION, **wrong})


def test_a_lent_vector_is_a_view_of_the_frame_and_equals_its_copy():
    sent = encode(Envelope(bytes(32), LINK, SERVER, MaskedInput(bytes(range(16)))))
    vector = decode(sent, LINK, LIMIT).message.vector
    assert isinstance(vector, memoryview)
    assert vector.obj is sent
    assert decode(sent, LINK, LIMIT) == Envelope(bytes(32), LINK, SERVER, MaskedInput(bytes(range(16))))
    assert encode(Envelope(bytes(32), LINK, SERVER, MaskedInput(vector))) == sent


NOT_LENT = {
    "bytearray": bytearray(8),
    "writeable": memoryview(bytearray(8)),
    "strided": memoryview(bytes(16))[::2],
    "of words": memoryview(bytes(8)).cast("I"),
    "half a word": memoryview(bytes(6)),
    "empty view": memoryview(b""),
    "empty": b"",
}


@pytest.mark.parametrize("vector", NOT_LENT.values(), ids=NOT_LENT)
def test_what_can_change_or_is_no_string_of_words_is_not_lent(vector):
    with pytest.raises(ValueError, match="vector is not"):
        MaskedInput(vector)


@pytest.mark.parametrize("roster", [(), (5, 1), (1, 1), (-1, 2), (1, MAX_ID + 1), [1, 2], (True, 2), (1, 2.0)])
def test_a_session_is_of_clients_in_ascending_order_each_once(roster):
    with pytest.raises(ValueError, match="roster"):
        replace(TASK, roster=roster)


def test_a_message_gives_the_session_that_its_fields_name():
    assert Task(*TASK.session.fields, "update", ("init",), bytes(8)) == TASK
    with pytest.raises(ValueError, match="threshold 4 does not fit"):
        _ = replace(TASK, threshold=4).session


def test_a_message_of_another_version_is_refused_in_words():
    items = items_of(TASK)
    refused(
        cbor2.dumps([1, *items[1:]]), match=r"a message of version 1 where this is version 2: all parties need the same release"
    )
    refused(cbor2.dumps(["2", *items[1:]]), match="a message of version no")


@pytest.mark.parametrize(
    "value",
    [
        [[[-1, "MaskedInput", bytes(70_000)], [-1, "é", b"short"]], [], [[-2, "why"]]],
        ["frame", -1, bytes(range(256)) * 300],
        {"a map": [bytes(70_000), 1.5, None, True]},
        [0, 1.5, bytes(70_000)],
        list(range(100_000)),
        [[[[[[bytes(70_000)]]]]]],
    ],
)
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_plain_values_are_read_as_they_were_written_whatever_they_are(value, kind):
    data = cbor2.dumps(value)
    assert plain_in(kind(data)) == plain_in(kind(data), lent=True) == value
    assert not isinstance(value, list) or b"".join(encoding_of(value)) == data


def test_a_long_string_of_bytes_is_read_where_it_is():
    data = cbor2.dumps([["name", bytes(70_000)]])
    [[name, found]] = plain_in(data, lent=True)
    assert name == "name"
    assert found.obj is data


@pytest.mark.parametrize("left", [0, 1, 60_000, 69_999])
def test_plain_values_that_are_cut_off_are_refused(left):
    with pytest.raises(ValueError):
        plain_in(cbor2.dumps(["name", bytes(70_000)])[:left])


def plainly(*items):
    """A list in which these encodings are the items."""
    return bytes([0x80 | len(items)]) + b"".join(items)


@pytest.mark.parametrize(
    "item",
    [
        *(pytest.param(cbor2.dumps(cbor2.CBORTag(tag, of)), id=f"tag {tag}") for tag, of in [(2, b"1"), (28, []), (258, [1])]),
        pytest.param(cbor2.dumps(cbor2.CBORTag(35, "(?i)" + "[\\0-\uffff]" * 50)), id="a regular expression"),
        pytest.param(cbor2.dumps(cbor2.CBORTag(5, [1 << 40, 1])), id="a number of a hundred gigabytes"),
        pytest.param(b"\xc0" * 40 + b"\x00", id="tags of tags"),
        pytest.param(b"\x9f\x00\xff", id="a list without an end"),
        pytest.param(b"\xbf\xff", id="a map without an end"),
        pytest.param(b"\x5f\x41a\xff", id="a string without an end"),
        pytest.param(b"\xf7", id="undefined"),
        pytest.param(b"\xe0", id="a simple value"),
        pytest.param(b"\xff", id="an end"),
        pytest.param(b"\xf9\x00", id="half a float"),
        pytest.param(b"\x81" * 30 + b"\x00", id="deep"),
        pytest.param(cbor2.dumps({1.5: 0}), id="a float as key"),
        pytest.param(cbor2.dumps({None: 0}), id="no key"),
        pytest.param(b"\xa1\x80\x00", id="a list as key"),
        pytest.param(cbor2.dumps({1 << 31: 0}), id="a key that is no id"),
        pytest.param(b"\x9b" + (1 << 60).to_bytes(8, "big"), id="a list of 2^60"),
        pytest.param(b"\xbb" + (1 << 60).to_bytes(8, "big"), id="a map of 2^60"),
        pytest.param(b"\x5b" + (1 << 63).to_bytes(8, "big"), id="a string of 2^63"),
        pytest.param(b"\x61\xff", id="no text"),
        pytest.param(b"\x18\x05", id="a number that is not written in the shortest form"),
    ],
)
def test_what_is_not_plain_is_refused_and_not_built(item, monkeypatch):
    plain_in(plainly(b"\x00", b"\x01"))
    for data in (item, plainly(b"\x00", item), plainly(b"\xa1\x61a" + item)):
        with pytest.raises(ValueError):
            plain_in(data)
    if item != b"\x61\xff":  # which reading alone can tell
        monkeypatch.setattr(cbor2, "loads", lambda *_: pytest.fail("built"))
        with pytest.raises(ValueError):
            plain_in(item)


def test_many_small_items_are_refused_before_they_are_a_hundred_times_their_bytes():
    with pytest.raises(ValueError, match="more items"):
        plain_in(b"\x9a" + (1 << 24).to_bytes(4, "big") + b"\x80" * (1 << 24))
    with pytest.raises(ValueError, match="more items"):
        plain_in(b"\x82" + 2 * (b"\x9a" + (450_000).to_bytes(4, "big") + bytes(450_000)))


def test_something_behind_a_plain_value_is_refused():
    with pytest.raises(ValueError, match="follows"):
        plain_in(b"\x80\x00")


def test_nothing_that_others_send_is_read_but_by_what_looks_first():
    own = {
        "protocol/wire/codec.py",  # behind its own look
        "protocol/work/away.py",  # a pipe to the process that it started
        *(f"protocol/masked/{name}.py" for name in ("given", "joined", "transcript")),
        *(f"protocol/{name}.py" for name in ("encrypted/keys", "pairs/memory", "two_servers/second_state")),
        *(f"protocol/work/{name}.py" for name in ("driving", "journalled")),
        *("fl/runs/member.py", "fl/runs/served_journal.py"),  # all of these: its own journal
    }
    root = Path(__file__).parents[1]
    found = {
        str(path.relative_to(root))
        for part in ("protocol", "fl", "crypto", "threat_models", "cloister")
        for path in (root / part).rglob("*.py")
        if re.search(r"cbor2\.loads?\(|CBORDecoder", path.read_text())
    }
    assert found == own
