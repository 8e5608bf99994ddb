"""Clients behind a link: what they answer, whatever they are told, and what a coordinator takes of whatever they answer."""

from collections import deque
from dataclasses import dataclass, replace
from types import SimpleNamespace

import cbor2
import numpy as np
import pytest
from PIL import Image

from cloister.crypto.entropy import KeptEntropy
from cloister.crypto.orthonormal import Permutation
from cloister.fl.data.given import from_csv
from cloister.fl.data.own import Alone, OwnData, TableSchema
from cloister.protocol import Masked
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.drivers.in_process import MOST_FAULTS, NOT_PUBLISHED, InProcess, no_work
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.drivers.roles import Party, Posted, Refusal, Send
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.parts.clients import SILENT, UNMADE, Clients
from cloister.protocol.parts.models import Models
from cloister.protocol.seeding.group_seed import seat
from cloister.protocol.uploaded.clients import transforming_clients, uploading_clients
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import MESSAGES, Declined, Ready
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.journalled import Logged
from cloister.protocol.work.linked import MOST_REFUSED, MOST_SUMS, Linked, well_formed
from cloister.protocol.work.said import said

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
    assert cbor2.loads(told(driven, "enrol", enrolled).data) is True  # the same, as its link has no entry of the first
    others = {use: keys | {CLIENTS[-1]: bytes(len(public[use]))} for use, keys in enrolled.items()}
    assert told(driven, "enrol", others).refused
    assert [kind for kind, _ in told(driven, "hello", "seed").sent] == ["Advertise"]
    for _ in range(2):
        assert cbor2.loads(told(driven, "begin").data) is False  # nobody sealed it the seed


@pytest.mark.parametrize("word", ["save", "restore", "model", "ledger", "roles", "nonsense", 7, None, ["frame"]])
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
        *(cbor2.dumps(words) for words in (["frame", SERVER, b"\x00" * 99], ["enrol", 7], ["final", "x"], ["final"])),
    ],
)
def test_no_word_ends_a_clients_program(driven, data):
    answer = said(driven, data)
    assert answer.refused
    assert not answer.sent
    assert well_formed(cbor2.loads(answer.data))


@pytest.mark.parametrize(
    "words", [("hello", "none"), ("deadline", "x"), ("holds", 7), ("left out", []), ("drop", "x"), ("alone", 1)]
)
def test_words_that_are_wrong_are_refused_once_a_client_knows_who_is_who_and_are_nothing_before(driven, words):
    early = told(driven, *words)
    assert (early.refused, early.sent, bool(np.any(cbor2.loads(early.data)))) == ((), (), False)
    told(driven, "enrol", {use: dict.fromkeys(CLIENTS, key) for use, key in cbor2.loads(told(driven, "public").data).items()})
    answer = told(driven, *words)
    assert answer.refused
    assert not answer.sent
    assert well_formed(cbor2.loads(answer.data))


def trained_alone(setup_of, maker):
    """A client that is ready for a run without a seed."""
    found = Driven(3, setup_of, maker, InMemory())
    shown = found.client.public
    found.enrol({use: dict.fromkeys(CLIENTS, key) for use, key in shown.items()})
    return found


def test_a_client_trains_by_itself_and_says_at_the_end_which_model_is_its_own():
    def workers(jobs):
        for job in jobs:
            yield job.client, LocalWork(np.full(8, 0.5, np.float32) - job.start, 10)

    setup = Setup(bytes(16), np.zeros(8, np.float32), CLIENTS, workers, KeptEntropy())
    client = trained_alone(setup, uploading_clients())
    start = np.ones(8, np.float32)
    assert cbor2.loads(told(client, "alone", 0, "start", start.tobytes(), "own").data) is True
    assert cbor2.loads(told(client, "alone", 0, "start", None, "other").data) is False  # it does not hold it
    assert cbor2.loads(told(client, "alone", 0, "start", start[:3].tobytes(), "short").data) is False
    final = told(client, "final", "own", start.tobytes())
    assert [np.frombuffer(model, np.float32).tolist() for model in final.final] == [[0.5] * 8, [1.0] * 8]
    assert not final.sent
    for models in (["other"], [b"abc"], [7], [b"abcd"] * 65, ["own", None]):
        assert told(client, "final", *models).refused


def test_a_client_that_owns_models_takes_none_in_the_clear_to_train_from():
    setup = Setup(bytes(16), np.zeros(8, np.float32), CLIENTS, nobody, KeptEntropy())
    client = Driven(3, setup, transforming_clients(Permutation), InMemory())
    client.client.rejoin({use: dict.fromkeys(CLIENTS, key) for use, key in client.client.public.items()}, bytes(32))
    assert cbor2.loads(told(client, "alone", 0, "start", bytes(32), "own").data) is False


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


@pytest.mark.parametrize(("said", "reason"), [(True, ""), (False, UNMADE), (None, SILENT)])
def test_who_is_away_while_it_would_train_alone_is_not_said_to_have_sent_what_is_not_finite(said, reason):
    """Before: "the vector is not finite, or too large to compare", of a process that was killed."""
    clients = Clients.__new__(Clients)
    clients.all = {3: SimpleNamespace(train_alone=lambda round, start, given, name: said)}
    clients._setup = SimpleNamespace(hosts=object())
    assert clients.train_alone(0, {3: ("start", None)}, {3: "own"}) == {3: reason}
    record = SimpleNamespace(fault=lambda *of: noted.append(of), reject=lambda *of: noted.append(of))
    run, noted = SimpleNamespace(clients=clients, record=record), []
    models = Models.__new__(Models)
    models._run, models.handles, models._new = run, SimpleNamespace(owners={"m": 3}, known={"m": (3,)}), lambda name: name
    models.check = lambda model: None
    kept = models.train_alone(0, {3: Model("m")})
    assert kept == {3: Model("client 3@0" if said else "m")}
    assert noted == ([(3, UNMADE)] if said is False else [])


def test_a_client_says_of_others_neither_what_they_alone_can_say_nor_without_end():
    """One liar had a page say that the privacy budget of five others ran out, and filled a coordinator's memory with reasons."""
    lies = [[SERVER, "it lied"], [3, "another sum would take client 3 past its budget of 8"], [2, "past its budget of 8"]]
    words = [[[], [], lies], [[], [], [[3, "x"]] * 4000]]
    hosts = Linked(Scripted(map(cbor2.dumps, words)), (2, 3))
    client = hosts(masking_clients(Masked(floor=2)))[2]
    for _ in words:
        client.roles["work"].take(SERVER, b"a")
    (_, first), (_, many) = hosts.heard()
    told = (
        Refusal(SERVER, "it lied"),
        Refusal(2, "it says of party 3 what that alone can say"),
        Refusal(2, "past its budget of 8"),
    )
    assert first == told
    assert len(many) == MOST_REFUSED
    sums = cbor2.dumps([[], [[str(k), bytes(32)] for k in range(100)], []])
    server = Linked(Scripted([sums, sums]), (2, 3))
    for party in (server.helper(SECOND_SERVER), server(masking_clients(Masked(floor=2)))[2].roles["work"]):
        party.take(SERVER, b"a")
    assert [len(effects) for _, effects in server.heard()] == [1, MOST_SUMS], "its faults filled the record"
    kept = Linked(Scripted([cbor2.dumps([[3, "its training failed, as its own log and record say"]])]), (2, 3))
    assert kept(masking_clients(Masked(floor=2)))[2].left_out() == ((2, told[1].reason),)


def test_who_says_that_it_was_sent_a_sum_where_none_is_sent_is_at_fault_and_ends_nothing():
    """One such answer ended a coordinator for good: it stood in its journal. What a client says of another has its name, too."""
    answers = [[[], [["x", bytes(32)]], [[3, "a share that was not the one it was dealt"]]], [[], [], []]]
    hosts = Linked(Scripted(map(cbor2.dumps, answers)), (2, 3))
    clients = hosts(masking_clients(Masked(floor=2)))
    network = InProcess(kinds=MESSAGES, max_bytes=1 << 16)
    ready = Envelope(bytes(32), SERVER, 2, Ready())
    roles = {i: client.roles["work"] for i, client in clients.items()}
    network.run(roles, {}, [(SERVER, Send(replace(ready, receiver=i))) for i in roles], no_work)
    assert [(f.blame, f.by, f.as_dict()["reason"]) for f in network.faults] == [
        (2, None, NOT_PUBLISHED),
        (3, 2, "a share that was not the one it was dealt"),
    ]
    assert network.faults[1].as_dict()["by"] == 2
    seen: list[tuple[int, str]] = []
    again = Linked(Scripted(map(cbor2.dumps, answers)), (2, 3))(masking_clients(Masked(floor=2)))
    roles = {i: client.roles["work"] for i, client in again.items()}
    opening = [(SERVER, Send(replace(ready, receiver=i))) for i in roles]
    network.run(roles, {}, opening, no_work, lambda i, effect: seen.append((i, effect.name)))
    assert seen == [(2, "x")]


def test_a_flood_of_nonsense_is_one_fault_of_each_kind():
    """A client that filled its answers had 72,000 faults a round, 66 MB of them after eight rounds."""
    junk = [[SERVER, "x", bytes([k % 250]) * 40] for k in range(4000)]
    answers = [[junk, [["x", bytes(32)]] * 4000, [[3, "it lied"]] * 4000], [[], [], []]]
    hosts = Linked(Scripted(map(cbor2.dumps, answers)), (2, 3))
    network = InProcess(kinds=MESSAGES, max_bytes=1 << 16)
    roles = {i: client.roles["work"] for i, client in hosts(masking_clients(Masked(floor=2))).items()}
    ready = Envelope(bytes(32), SERVER, 2, Ready())
    network.run(roles, {}, [(SERVER, Send(replace(ready, receiver=i))) for i in roles], no_work)
    assert {(f.blame, f.by) for f in network.faults} == {(2, None), (3, 2)}
    assert 3 <= len(network.faults) <= 10
    assert len(set(network.faults)) == len(network.faults)


def test_no_client_has_more_faults_in_an_exchange_than_anybody_reads():
    """98,280 faults came of four rounds of a client that declined, each time for another reason."""
    declined = [Envelope(bytes(32), 2, SERVER, Declined(f"for reason {k}")) for k in range(4000)]
    answers = [[[[SERVER, "Declined", encode(one)] for one in declined], [], []], [[], [], [[2, "it lied"]]]]
    hosts = Linked(Scripted(map(cbor2.dumps, answers)), (2, 3))
    network = InProcess(kinds=MESSAGES, max_bytes=1 << 16)
    roles = {i: client.roles["work"] for i, client in hosts(masking_clients(Masked(floor=2))).items()}
    ready = Envelope(bytes(32), SERVER, 2, Ready())
    server = Party(SERVER, None, lambda state, event: (state, ()))
    network.run(roles, {bytes(32): server}, [(SERVER, Send(replace(ready, receiver=i))) for i in roles], no_work)
    assert [fault.reason for fault in network.faults if fault.declined][:2] == ["for reason 0", "for reason 1"]
    assert len(network.faults) == MOST_FAULTS + 1
    assert network.faults[-1].by == 3


def test_who_is_absent_answers_nothing_and_holds_nothing():
    hosts = Linked(Scripted([None] * 6), (2,))
    client = hosts(masking_clients(Masked(floor=2)))[2]
    assert client.begin() is client.holds("seed") is False
    assert client.left_out() == client.hello() == ()
    assert client.public is None
    client.roles["work"].take(SERVER, b"a")
    assert list(hosts.heard()) == []
    assert hosts.absent == {2: 1}


def test_who_takes_no_model_at_the_end_is_known():
    hosts = Linked(Scripted([None, cbor2.dumps([[], [], []]), None]), (2, 3, 4))
    hosts(masking_clients(Masked(floor=2)))[3].roles["work"].take(SERVER, b"a")  # which is not answered in time
    assert hosts.without is None
    hosts.finish({3: ("model",), 4: ("model",)})
    assert hosts.without == (2, 4)


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
        ("1,2,-1e39,4,0\n" * 10, "numbers that are too large; bring columns to one scale"),
        ("", "no examples"),
        ("1,2,3,4,0\n", "too few"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        OwnData(tmp_path / "mine.csv", (1, 2, 2), 3)(None)


AGREED = TableSchema(("a", "b", "c", "d"), "outcome", ("home", "ward"))


def test_columns_of_ones_own_are_found_by_name_and_labels_in_the_agreed_words(tmp_path):
    rows = [[label, 4, 3, 2, 1] for label in ("ward", "home") for _ in range(5)]
    text = "outcome, d,c,b,a\n" + "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "mine.csv").write_text(text)
    source = OwnData(tmp_path / "mine.csv", (4,), 2, agreed=AGREED)(None)
    assert all(x.tolist() == [1, 2, 3, 4] for x in source.train.x)
    assert sorted(source.train.y.tolist()) == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,c,outcome,sex\n1,2,3,home,0\n", "lacks 'd' and has 'sex' besides; it is to name a, b, c, d, outcome"),
        ("1,2,3,4,0\n", r"mine.csv begins with a row of numbers: is the header missing, a first line with the names\?$"),
        ("a,b,c,d,outcome\n1,1e39,3,4,home\n", "line 2 of .*: column 'b' has '1e39', which is too large a number"),
        ("a,b,c,d,outcome\n1,2,3,4,Home\n", "line 2 of .*: outcome is 'Home', none of those agreed: home, ward"),
        ("a,b,c,d,outcome\n1,,3,4,home\n", "line 2 of .*: column 'b' has ''"),
        ("a,b,c,d,outcome\n1,nan,3,4,home\n", "line 2 of .*: column 'b' has 'nan'"),
        ("a,b,c,d,a,outcome\n1,2,3,4,5,home\n", "has two columns 'a'"),
    ],
)
def test_a_table_that_is_not_as_agreed_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        OwnData(tmp_path / "mine.csv", (4,), 2, agreed=AGREED)(None)


def test_what_was_agreed_is_read_of_the_scenarios_own_table(tmp_path):
    (tmp_path / "columns.csv").write_text(
        "hospital,a,outcome,b\n" + "\n".join(f"{h},1,{o},2" for h in (0, 1) for o in ("y", "x"))
    )
    found = from_csv(tmp_path / "columns.csv", label="outcome", client="hospital").agreed()
    assert found == TableSchema(("a", "b"), "outcome", ("x", "y"))


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


def test_clients_that_are_told_the_same_model_are_posted_one_word_in_turn():
    one, other = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    posted = []

    class Link:
        def post(self, client, data):
            posted.append((client, data))
            return len(posted)

        def heard(self):
            client = posted[len(heard)][0]
            heard.append(client)
            return Logged(client, len(heard), None)

        def heard_already(self):
            return None

        def done_with(self, answer):
            raise AssertionError("nobody answers")

    heard = []
    linked = Linked(Link(), CLIENTS)
    linked.finish({0: (one,), 2: (other,), 3: (one,), 5: (one, "held")})
    assert [client for client, _ in posted] == [0, 3, 2, 5]  # of long words one alone is there at a time
    assert posted[0][1] is posted[1][1]
    said = [cbor2.loads(data) for _, data in posted]
    assert said == [["final", one.tobytes()]] * 2 + [["final", other.tobytes()], ["final", one.tobytes(), "held"]]
    assert linked.without == CLIENTS


def test_clients_are_asked_who_begins_all_at_once_and_a_frames_answer_between_is_heard_later():
    """Three that hang were each waited for after the other."""
    link = Scripted([cbor2.dumps(RIGHT), None, cbor2.dumps(True), None, None])
    hosts = Linked(link, CLIENTS)
    clients = hosts(masking_clients(Masked(floor=2)))
    clients[5].roles["work"].take(SERVER, b"a")
    for client in clients.values():
        client.ahead("begin")
        client.ahead("begin")  # one of them is sent
    assert link.posted == 5
    link.heard_of.rotate(-2)  # 2 answers first, then 3
    assert [client.begin() for client in clients.values()] == [False, True, False, False]
    assert link.posted == 5
    assert list(hosts.heard()) == [(5, (Posted(SERVER, "Ready", b"x"),))]
    assert hosts.absent == {}


def test_an_answer_to_what_nobody_asks_for_any_more_is_no_fault():
    hosts = Linked(Scripted([cbor2.dumps(True), cbor2.dumps(RIGHT)]), CLIENTS)
    clients = hosts(masking_clients(Masked(floor=2)))
    clients[0].ahead("begin")
    clients[2].roles["work"].take(SERVER, b"a")
    assert list(hosts.heard()) == [(2, (Posted(SERVER, "Ready", b"x"),))]
    assert clients[0].begin(), "the answer came then"


def test_a_run_is_begun_with_first_words_to_all_clients_at_once():
    words = []

    class Link(Scripted):
        def post(self, client, data):
            words.append(cbor2.loads(data)[0])
            return super().post(client, data)

        def heard(self):
            words.append("heard")
            return super().heard()

    maker = masking_clients(Masked(floor=2))
    setup = Setup(
        bytes(16),
        np.zeros(8, np.float32),
        CLIENTS,
        nobody,
        KeptEntropy(),
        hosts=Linked(Link([None] * 99), CLIENTS, {"seed": dict.fromkeys(CLIENTS, bytes(32))}),
    )
    clients = Clients(setup, maker)
    with pytest.raises(ProtocolError):
        seat(clients, setup, maker)
    for word in ("enrol", "hello", "begin"):
        first = words.index(word)
        assert words[first : first + 4] == [word] * 4
