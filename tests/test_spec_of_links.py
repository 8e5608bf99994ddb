"""The page of links says what the code does: versions, kinds of pieces, words and limits."""

import re
from importlib.resources import files

import cbor2
import pytest

from cloister.fl.runs.greeting import Greeting
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import RUN_BYTES, VERSION
from cloister.protocol.links import batches, flow, terms
from cloister.protocol.work.linked import MOST_ITEMS
from cloister.protocol.work.said import SERVED

PAGE = (files("cloister.protocol") / "specs" / "links.md").read_text()
MIB = 1 << 20


def rows(section):
    """First cells of its first table."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:]


def test_words_are_those_that_a_client_answers():
    assert {word.strip("`") for word in rows("Words and answers")} == SERVED
    assert f"0*{MOST_ITEMS} " in PAGE


def test_pieces_are_of_the_kinds_and_sizes_that_are_sent():
    kinds = (flow._PIECE, flow._OFFER, flow._GRANT, flow._WORKING, flow._OVER, flow._LEAVING)
    assert tuple(map(int, rows("Pieces"))) == kinds
    assert flow.HEAD.format == ">BQIIQ"
    assert (flow.HEAD.size, flow.PIECE_BYTES, flow.SMALL_BYTES, flow.WINDOW) == (25, MIB // 4, 64 << 10, 8)
    assert f"UTF-8 of at most {flow.MOST_REASON} bytes" in PAGE
    assert (flow.Rate().at_once, flow.Rate().a_second) == (4000, 2000.0)


def test_first_messages_have_the_items_of_the_schema():
    assert PAGE.startswith(f"# Links between processes, version {terms.LINK_VERSION}\n")
    first = cbor2.loads(terms.hello(bytes(terms.BOOT_BYTES), bytes(32), terms.ClientRun(b"run", 2, 3)))
    assert first == [terms.LINK_VERSION, VERSION, bytes(16), bytes(32), b"run", 2, 3]
    reply = cbor2.loads(terms.reply(bytes(64), b"shown", terms.CoordinatorRun(b"run", 2), b"greeting"))
    assert reply == [bytes(64), b"shown", b"run", 2, b"greeting"]
    assert f"(0..{terms.MOST_RUN_BYTES})" in PAGE
    assert f"client-first = [link: {terms.LINK_VERSION}, " in PAGE


def test_parties_of_releases_apart_are_told_so():
    """Whichever end is the older one: of the link's version, of the protocol's, and of the greeting that follows."""
    first = cbor2.loads(terms.hello(bytes(terms.BOOT_BYTES)))
    ours = f"{terms.LINK_VERSION}.{VERSION}"
    for link, protocol in ((4, VERSION), (terms.LINK_VERSION, VERSION + 1)):
        words = f"this coordinator speaks version {ours}, the client {link}.{protocol}: all parties need the same release"
        with pytest.raises(terms.LinkRefused, match=re.escape(words)):
            terms.hello_of(cbor2.dumps([link, protocol, *first[2:]]))
    greeting = [0, bytes(RUN_BYTES), [0, 1], [3], 2, bytes(32), "Masked()"]
    assert Greeting.of(cbor2.dumps([*greeting, {"seed": "1"}])).terms == {"seed": "1"}
    with pytest.raises(Refused, match="is not a greeting: all parties need the same release"):
        Greeting.of(cbor2.dumps(greeting))


@pytest.mark.parametrize(
    ("place", "value"),
    [(2, [0, float("inf")]), (3, [float("inf")]), (3, [0]), (3, [2**20, 2**20]), (4, 10_000_000), (4, 0), (4, True)],
)
def test_a_greeting_of_what_no_run_has_is_refused_before_a_model_is_made(place, value):
    """Ten million labels made a model of five gigabytes at the client, before its digest was held against the coordinator's."""
    greeting = [0, bytes(RUN_BYTES), [0, 1], [3], 2, bytes(32), "Masked()", {"seed": "1"}]
    greeting[place] = value
    with pytest.raises(Refused, match="what the coordinator says first"):
        Greeting.of(cbor2.dumps(greeting))


def test_limits_are_those_that_hold_by_default():
    limits = terms.Limits()
    said = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", PAGE.split("\n## Limits\n")[1].split("\n## ")[0], re.MULTILINE))
    assert float(said["seconds until a stream has said who it is"]) == limits.greeting
    assert int(said["streams of a client that have said nothing"]) == limits.opening
    assert said["streams of a client that displace one another"] == f"{limits.displacing}, and one for every {limits.calm:g} s"
    assert int(said["long messages at once"]) == limits.slots
    assert said["bytes of words on their way"] == f"{limits.ahead // MIB} MiB"


def test_batches_have_the_schemas_numbers():
    assert batches.BATCH_VERSION == 1
    assert f"0*{batches.MOST_WORDS} " in PAGE
    assert f"0..{batches.MOST_NUMBER}" in PAGE
