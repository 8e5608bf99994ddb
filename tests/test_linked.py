"""Clients behind a link: what they answer, whatever they are told, and what a coordinator takes of whatever they answer."""

from collections import deque
from dataclasses import dataclass

import cbor2
import numpy as np
import pytest
from PIL import Image

from cloister.crypto.entropy import KeptEntropy
from cloister.fl.data.own import Alone, OwnData
from cloister.protocol import Masked
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.drivers.roles import Posted, Refusal
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.view.protection import Setup
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.linked import Linked, said, well_formed

CLIENTS = (0, 2, 3, 5)


def nobody(jobs):
    raise AssertionError("nobody asked it to work")


@pytest.fixture
def driven():
    setup = Setup(bytes(16), np.zeros(8, np.float32), CLIENTS, nobody, KeptEntropy())
    return Driven(3, setup, masking_clients(Masked(floor=2)), InMemory())


def told(driven, *words):
    return said(driven, cbor2.dumps(words))


def test_a_client_says_who_it_is_and_begins_once(driven):
    public = cbor2.loads(told(driven, "public").data)
    assert all(type(key) is bytes for key in public.values())
    enrolled = {use: dict.fromkeys(CLIENTS, key) for use, key in public.items()}
    assert cbor2.loads(told(driven, "enrol", enrolled).data) is True
    assert told(driven, "enrol", enrolled).refused  # others, perhaps
    assert [kind for kind, _ in told(driven, "hello", "seed").sent] == ["Advertise"]
    for _ in range(2):
        assert cbor2.loads(told(driven, "begin").data) is False  # nobody sealed it the seed


@pytest.mark.parametrize("word", ["save", "restore", "model", "alone", "ledger", "roles", "nonsense", 7, None, ["frame"]])
def test_a_client_does_not_tell_its_coordinator_what_only_a_simulation_may_ask(driven, word):
    assert told(driven, word, "init").refused
    assert not told(driven, word).sent


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\x80",
        cbor2.dumps(7),
        cbor2.dumps({"frame": 1}),
        *(cbor2.dumps(words) for words in ([], ["frame"], ["frame", 2, b"x"], ["frame", SERVER], ["frame", SERVER, 7])),
        *(cbor2.dumps(words) for words in (["frame", SERVER, b"\x00" * 99], ["enrol", 7], ["hello", "none"], ["deadline", "x"])),
        *(
            cbor2.dumps(words)
            for words in (["begin", 1], ["holds", 7], ["left out", []], ["drop", "x"], ["final", "x"], ["final"])
        ),
    ],
)
def test_no_word_ends_a_clients_program(driven, data):
    answer = said(driven, data)
    assert answer.refused
    assert not answer.sent
    assert well_formed(cbor2.loads(answer.data))


@dataclass
class Told:
    client: int
    number: int
    data: bytes | None
    late: bool = False


class Scripted:
    """A link whose clients answer what a test says."""

    def __init__(self, answers):
        self.answers, self.heard_of, self.posted = deque(answers), deque(), 0

    def post(self, client, data):
        self.posted += 1
        data = self.answers.popleft()
        self.heard_of.append(Told(client, self.posted, data))
        return self.posted

    def heard(self):
        return self.heard_of.popleft()

    def heard_already(self):
        return self.heard_of.popleft() if self.heard_of else None

    def done_with(self, answer):
        pass


RIGHT = [[[SERVER, "Ready", b"x"]], [], []]
WRONG = [
    None,
    7,
    [],
    [[], []],
    [[[SERVER, "Ready"]], [], []],
    [[[3, "Ready", b"to another client"]], [], []],
    [[[-2, "Ready", b"to another server"]], [], []],
    [[[True, "Ready", b""]], [], []],
    [[[SERVER, "x" * 99, b""]], [], []],
    [[], [["sum", b"short"]], []],
    [[], [], [[3, "x" * 2000]]],
    [[[SERVER, "Ready", b""]] * 5000, [], []],
]


@pytest.mark.parametrize("wrong", [*(cbor2.dumps(plain) for plain in WRONG), b"", b"\xff", b"\x9b" + bytes(7) + b"\xff"])
def test_an_answer_that_is_none_is_a_fault_of_its_client_and_of_nobody_else(wrong):
    hosts = Linked(Scripted([wrong, cbor2.dumps(RIGHT)]), (2, 3))
    clients = hosts(masking_clients(Masked(floor=2)))
    assert clients[2].roles["work"].take(SERVER, b"a") == clients[3].roles["work"].take(SERVER, b"a") == ()
    (of_wrong, fault), (of_right, effects) = hosts.heard()
    assert (of_wrong, of_right) == (2, 3)
    assert isinstance(fault[0], Refusal)
    assert fault[0].blame == 2
    assert effects == (Posted(SERVER, "Ready", b"x"),)


def test_who_is_absent_answers_nothing_and_holds_nothing():
    hosts = Linked(Scripted([None] * 6), (2,))
    client = hosts(masking_clients(Masked(floor=2)))[2]
    assert client.begin() is client.holds("seed") is False
    assert client.left_out() == client.hello() == ()
    assert client.public is None
    client.roles["work"].take(SERVER, b"a")
    assert list(hosts.heard()) == []
    assert hosts.absent == {2: 1}


# --- data of one's own -----------------------------------------------------------------------------------------------------


def test_a_table_of_ones_own(tmp_path):
    rows = [[*np.full(4, label / 10), label] for label in (0, 1, 2) for _ in range(5)]
    text = "a,b,c,d,label\n" + "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "mine.csv").write_text(text)
    source = OwnData(tmp_path / "mine.csv", (1, 2, 2), 3)(None)
    assert (len(source.train), len(source.test), source.shape) == (12, 3, (1, 2, 2))
    assert all((x == y / 10).all() for x, y in zip(source.train.x, source.train.y, strict=True))
    population = Alone(7)(source, np.random.default_rng(0))
    assert list(population.clients) == [7]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,3,4,0\n1,2,x,4,0\n", "line 2 .* is not numbers"),
        ("1,2,3,0\n", "has 4 columns, where the model takes 4 numbers and a label"),
        ("1,2,3,4,9\n" * 10, "labels from 9 to 9"),
        ("1,2,3,4,0.5\n" * 10, "not whole numbers"),
        ("1,2,inf,4,0\n" * 10, "not finite"),
        ("", "no examples"),
        ("1,2,3,4,0\n", "too few"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        OwnData(tmp_path / "mine.csv", (1, 2, 2), 3)(None)


def test_images_of_ones_own(tmp_path):
    for label in (0, 2):
        (tmp_path / str(label)).mkdir()
        for k in range(5):
            Image.new("L", (6, 6), 100 * label).save(tmp_path / str(label) / f"{k}.png")
    source = OwnData(tmp_path, (1, 4, 4), 3)(None)
    assert (len(source.train), len(source.test), source.shape) == (8, 2, (1, 4, 4))
    assert all(abs(float(x.mean()) - int(y) * 100 / 255) < 1e-6 for x, y in zip(source.train.x, source.train.y, strict=True))
    (tmp_path / "2" / "9.png").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"9\.png cannot be read"):
        OwnData(tmp_path, (3, 4, 4), 3)(None)
