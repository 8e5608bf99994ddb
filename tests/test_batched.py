"""Words in one message a client a stage: what goes out when, who counts as absent, and that nothing is done twice."""

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.protocol.core.errors import Refused
from cloister.protocol.links.batched import Batched, Brought
from cloister.protocol.links.batches import MOST_WORDS, Answers, Batch, answered
from cloister.protocol.work.together import Together

numbered = st.dictionaries(st.integers(0, 1 << 40), st.binary(max_size=40), max_size=5).map(lambda of: tuple(of.items()))


class Carried:
    """A carrier whose clients answer with what they were told. silent: who does not. failing: whose apps fail."""

    def __init__(self):
        self.sent, self.silent, self.failing, self.waiting = [], set(), set(), {}

    def send(self, client, data):
        self.sent.append((client, Batch.of(data)))
        name = (client, len(self.sent))
        self.waiting[name] = data
        return name

    def replies(self, names):
        there = [name for name in names if name in self.waiting and name[0] not in self.silent]
        found = {name: Batch.of(self.waiting.pop(name)) for name in there}
        return {n: None if n[0] in self.failing else answered(b, lambda w: b"to " + w).encoded() for n, b in found.items()}


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def link():
    carried, time = Carried(), Time()
    found = Batched(carried, lambda client: b"hello %d" % client, 10.0, clock=time, sleep=time.sleep)
    found.carried, found.time = carried, time
    return found


def sent(link):
    found = [(client, batch.greeting, [word for _, word in batch.words]) for client, batch in link.carried.sent]
    link.carried.sent.clear()
    return found


@given(st.integers(0, 1 << 40), st.binary(max_size=20), numbered)
def test_messages_are_what_they_were(number, greeting, entries):
    assert Batch.of(Batch(number, greeting, entries).encoded()) == Batch(number, greeting, entries)
    assert Answers.of(Answers(number, entries, "no").encoded()) == Answers(number, entries, "no")


@pytest.mark.parametrize(
    "plain",
    [
        7,
        [],
        [1, 2],
        [1, -1, b"", []],
        [1, 1, "", []],
        [1, 1, b"", [[1]]],
        [1, 1, b"", [[1, "x"]]],
        [1, 1, b"", [[True, b"x"]]],
        [1, 1, b"", [[1, b"x"], [1, b"y"]]],
        [1, 1, b"", [[n, b""] for n in range(MOST_WORDS + 1)]],
    ],
    ids=range(10),
)
def test_what_is_no_message_is_refused(plain):
    with pytest.raises(Refused):
        Batch.of(cbor2.dumps(plain))
    with pytest.raises(Refused):
        Answers.of(cbor2.dumps(plain))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x9b" + bytes(3) + b"\xff" * 5, b"\x5b" + bytes(3) + b"\xff" * 5])
def test_bytes_that_announce_more_than_there_is_are_refused(data):
    with pytest.raises(Refused):
        Batch.of(data)


def test_another_version_is_named():
    with pytest.raises(Refused, match="version 9"):
        Batch.of(cbor2.dumps([9, 1, b"", []]))


def test_all_words_of_a_stage_for_a_client_go_in_one_message(link):
    posted = [link.post(client, word) for client in (1, 2) for word in (b"a", b"b")]
    assert sent(link) == []
    first = link.heard()
    assert sent(link) == [(1, b"hello 1", [b"a", b"b"]), (2, b"hello 2", [b"a", b"b"])]
    link.post(1, b"c")  # said while others' answers of this stage are heard
    rest = [link.heard() for _ in range(3)]
    assert sent(link) == []
    assert [(h.client, h.number, h.data) for h in (first, *rest)] == [
        (1, posted[0], b"to a"),
        (1, posted[1], b"to b"),
        (2, posted[2], b"to a"),
        (2, posted[3], b"to b"),
    ]
    assert link.heard_already() is None
    assert link.heard().data == b"to c"
    assert sent(link) == [(1, b"", [b"c"])]
    assert (link.stages, link.messages) == (2, 3)


def test_who_does_not_answer_is_absent_and_is_told_nothing_until_it_has(link):
    link.carried.silent.add(2)
    numbers = [link.post(client, b"a") for client in (1, 2)]
    assert link.heard() == Brought(1, numbers[0], b"to a")
    assert link.heard() == Brought(2, numbers[1], None)
    assert 10.0 < link.time.now < 11.0
    sent(link)
    again = link.post(2, b"b")
    assert link.heard() == Brought(2, again, None)
    assert sent(link) == []
    link.carried.silent.clear()
    assert link.heard_already() == Brought(2, numbers[1], b"to a", late=True)
    link.post(2, b"c")
    assert link.heard().data == b"to c"


def test_patience_counts_from_the_last_answer_of_anybody(link):
    link.carried.silent |= {1, 2}
    for client in (1, 2):
        link.post(client, b"a")
    waited = link.time.sleep

    def sleep(seconds):
        waited(seconds)
        if link.time.now > 8.0:
            link.carried.silent.discard(1)

    link._sleep = sleep
    assert link.heard().data == b"to a"
    assert link.heard().data is None
    assert link.time.now > 17.0


def test_an_app_that_fails_or_answers_something_else_is_absent_and_greeted_again(link):
    link.carried.failing.add(1)
    link.post(1, b"a")
    assert link.heard().data is None
    link.carried.failing.clear()
    sent(link)
    link.post(1, b"b")
    assert link.heard().data == b"to b"
    assert sent(link) == [(1, b"hello 1", [b"b"])]


@pytest.mark.parametrize(
    "reply", [b"", Answers(9, ((1, b"x"),)).encoded(), Answers(1, refusal="not with me").encoded(), Answers(1).encoded()]
)
def test_what_does_not_answer_the_message_answers_nothing(link, reply):
    number = link.post(1, b"a")
    link.carried.replies = lambda names: dict.fromkeys(names, reply)
    assert link.heard() == Brought(1, number, None)
    assert ("not with me" in link.refusals.get(1, "")) == (b"not with me" in reply)


def test_nothing_to_wait_for_is_an_error_and_not_a_hang(link):
    with pytest.raises(RuntimeError, match="no word was said"):
        link.heard()


def test_what_all_are_asked_alike_they_are_asked_at_once():
    carried, time = Carried(), Time()
    link = Batched(carried, lambda client: b"", 10.0, clock=time, sleep=time.sleep)
    told = lambda batch: answered(batch, lambda word: cbor2.dumps([len(word)])).encoded()  # noqa: E731
    carried.replies = lambda names: {name: told(Batch.of(carried.waiting.pop(name))) for name in names if name in carried.waiting}
    hosts = Together(link, (1, 2, 3))
    assert [hosts.ask(client, "holds", "seed") for client in (1, 2, 3)] == [[len(cbor2.dumps(["holds", "seed"]))]] * 3
    assert link.stages == 1
    assert [hosts.ask(client, "holds", "seed") for client in (1, 2, 3)] == [[len(cbor2.dumps(["holds", "seed"]))]] * 3
    assert link.stages == 2
    hosts.ask(2, "drop", "x")
    assert (link.stages, link.messages) == (3, 7)
