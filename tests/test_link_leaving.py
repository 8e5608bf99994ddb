"""A client that takes no further part says why: an operator reads the terms that it refuses, and nothing of its data."""

import asyncio
import json
import logging
import re
import threading
from dataclasses import replace

import pytest

from cloister.fl.runs.joining import ITS_OWN, join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.serving import serve
from cloister.protocol import Permuted
from cloister.protocol.core.errors import Refused
from cloister.protocol.links import flow
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits, grpc_or_words

from .served import SMALL

grpc_or_words()


def test_a_coordinator_reads_in_one_printable_line_why_a_client_leaves_and_waits_no_more(caplog):
    listener = Listener("127.0.0.1:0", (0,), lambda client: b"hello", None, Limits(patience=60.0))
    first = Dialled(f"127.0.0.1:{(port := listener.start())}", None, 0, patience=5.0)
    second = Dialled(f"127.0.0.1:{port}", None, 0, patience=5.0)
    try:
        with caplog.at_level(logging.WARNING, "cloister.link"):
            first.start()
            listener.post(0, b"a word")
            assert first.leave("terms\n{}\x1b[2J\u202e of  another" + 1000 * "x")
            assert listener.heard().data is None  # at once, and not when the client's patience is over
        (said,) = [record for record in caplog.records if record.getMessage() == "left"]
        assert said.why.startswith("terms {} [2J of another" + 100 * "x")
        assert said.why.isprintable()
        assert len(said.why) <= flow.MOST_REASON
        assert listener.left() == {0: said.why}
        listener.post(0, b"another")
        assert listener.heard().data is None
        assert list(first.words())[1:] == [], "it is over for it, and it does not connect again"
        assert not first.over
        second.start()
        assert listener.wait_for(1, 5.0) == (0,)
        assert listener.left() == {}, "it is back"
    finally:
        first.stop()
        second.stop()
        listener.stop()


def test_a_reason_is_bounded_and_never_empty():
    assert flow.one_line(b" \n\x00 ") == "it does not say why"
    assert flow.one_line(b"caf\xc3") == "caf\ufffd"  # cut within a character
    with pytest.raises(flow.Misplaced, match="601 bytes of why it leaves"):
        flow.one_line(b"x" * 601)


def test_who_leaves_when_nobody_is_there_says_it_to_nobody():
    link = Dialled("127.0.0.1:1", None, 0, patience=600.0)
    assert link.leave("before it began") is False
    link.stop()


@pytest.mark.long
@pytest.mark.parametrize("over", ["terms", "data"])
def test_an_operator_is_told_which_terms_a_client_refuses_and_of_its_data_nothing(over, tmp_path):
    """In the log, and in the line that says that the run does not begin."""
    ended, threads = [], []
    (own := tmp_path / "own.csv").write_text("a,b\n1,secret\n")
    mine = replace(SMALL, protection=Permuted(floor=3)) if over == "terms" else SMALL

    def client(port):
        try:
            link = Dialled(f"127.0.0.1:{port}", None, 0, patience=5.0)
            list(join(mine, link, tmp_path / "home", own=own if over == "data" else None))
        except Exception as error:
            ended.append(error)

    def listening(port):
        threads.append(threading.Thread(target=client, args=(port,), daemon=True))
        threads[0].start()

    theirs, ours = SMALL.protection, mine.protection
    why = f"the coordinator plays {theirs!r}, where this client agrees to {ours!r}" if over == "terms" else ITS_OWN
    where = Listening("127.0.0.1:0", None, Limits(), 1.2, told=listening)
    with pytest.raises(ValueError, match=re.escape(f"all of them; client-0 left: {why}: give --wait")):
        list(serve(SMALL, tmp_path / "run", where))
    threads[0].join(10)
    (error,) = ended
    assert isinstance(error, Refused if over == "terms" else ValueError)
    record = [json.loads(line) for line in (tmp_path / "home/join.jsonl").read_text().splitlines()]
    (told,) = [line for line in record if "revealed" in line]
    assert (told["said"], told["to"], told["revealed"][0]["what"]) == (why, "coordinator", "Leaving")
    assert record[-1]["left"] == str(error)


def test_who_leaves_in_the_middle_of_a_long_answer_gives_its_slot_to_others():
    """Of the answer nothing is heard. There is one slot."""
    listener = Listener("127.0.0.1:0", (0, 1), lambda client: b"hello", None, Limits(patience=60.0, slots=1))
    port = listener.start()
    links = [Dialled(f"127.0.0.1:{port}", None, i, patience=5.0) for i in range(2)]
    try:
        numbers = {}
        for i, link in enumerate(links):
            link.start()
            numbers[i] = listener.post(i, b"a word")
            next(link.words())
        halfway, put = asyncio.Event(), flow.Flow._put

        async def stopping(self, kind, number, index, of, *rest):
            if kind == flow._PIECE and of > 1 and index == of // 2 and not halfway.is_set():
                halfway.set()
                await asyncio.Event().wait()
            await put(self, kind, number, index, of, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flow.Flow, "_put", stopping)
            threading.Thread(target=links[0].answer, args=(numbers[0], bytes(16 << 20)), daemon=True).start()
            waiting = links[0]._background.result(asyncio.wait_for(halfway.wait(), 20))
            assert waiting
            assert links[0].leave("it has no room")
        heard = listener.heard()
        assert (heard.client, heard.data) == (0, None)
        links[1].answer(numbers[1], bytes(16 << 20))
        heard = listener.heard()
        assert (heard.client, len(heard.data)) == (1, 16 << 20)
        assert listener.left() == {0: "it has no room"}
    finally:
        for link in links:
            link.stop()
        listener.stop()


@pytest.mark.parametrize("said", [b"x" * 601, b"x" * (1 << 18)], ids=["over the limit", "a whole piece"])
def test_a_reason_that_is_too_long_ends_the_stream_and_is_none(said, caplog):
    listener = Listener("127.0.0.1:0", (0,), lambda client: b"hello", None, Limits(patience=60.0))
    link = Dialled(f"127.0.0.1:{listener.start()}", None, 0, patience=5.0)

    async def leave(self, why):
        await self._put(flow._LEAVING, 0, 0, 0, len(said), said)

    try:
        link.start()
        listener.post(0, b"a word")
        with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO, "cloister.link"):
            patch.setattr(flow.Flow, "leave", leave)
            link.leave("")
        assert listener.left() == {}
        assert any("bytes of why it leaves" in str(vars(record).get("why")) for record in caplog.records)
        assert not any(len(str(vars(record).get("why", ""))) > flow.MOST_REASON for record in caplog.records)
    finally:
        link.stop()
        listener.stop()


def test_who_leaves_many_times_with_anything_is_one_client_that_left(caplog):
    """Bytes that are no text, control characters, characters that turn a line around: each in one printable line."""
    listener = Listener("127.0.0.1:0", (0,), lambda client: b"hello", None, Limits(patience=60.0))
    port = listener.start()
    reasons = [
        b"\xff\xfe\x00" * 9,
        b"\x1b]0;title\x07\x1b[2J",
        "\u202eback\u2066\u2028".encode(),
        b"",
        b'"}\n{"level": "ERROR"',
        b"\x00" * 600,
    ]
    try:
        for said in reasons:

            async def leave(self, why, said=said):
                await self._put(flow._LEAVING, 0, 0, 0, len(said), said)

            link = Dialled(f"127.0.0.1:{port}", None, 0, patience=5.0)
            with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "cloister.link"):
                patch.setattr(flow.Flow, "leave", leave)
                link.start()
                number = listener.post(0, b"a word")
                assert link.leave("")
                link.stop()
            heard = listener.heard()
            assert (heard.number, heard.data) == (number, None)
            assert listener.left()[0].isprintable()
            assert listener.left()[0].strip()
        assert len([record for record in caplog.records if record.getMessage() == "left"]) == len(reasons)
        assert listener.present() == ()
    finally:
        listener.stop()
