"""A client that takes no further part says why: an operator reads the terms that it refuses, and nothing of its data."""

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
