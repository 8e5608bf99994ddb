"""The coordinator's journal in its run folder, and runs that are killed for real."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import cbor2
import pytest

from cloister.fl.runs.listening import Listening
from cloister.fl.runs.scenario import described
from cloister.fl.runs.served_journal import JOURNAL, ServedJournal
from cloister.fl.runs.serving import serve
from cloister.protocol import Masked
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import IN_VAIN, LinkRefused

from .deployed import authority, standing
from .deployed_scenario import plain, scenario

SCENARIO = {"name": "a", "rounds": 3, "seed": 0}


def closed(journal):
    journal.setup.close()
    journal.close()


def test_a_journal_is_gone_on_from_under_the_same_name_and_secrets(tmp_path):
    first = ServedJournal(tmp_path, SCENARIO)
    closed(first)
    second = ServedJournal(tmp_path, SCENARIO | {"rounds": 9})  # more of them is the same run
    assert (second.run, second.root, first.life, second.life) == (first.run, first.root, 1, 2)
    for path in (tmp_path / JOURNAL, *(tmp_path / JOURNAL).iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    closed(second)


def test_who_was_enrolled_when_the_run_began_stays_enrolled(tmp_path):
    """Also where the directory has gone on when the coordinator is started again: each word is said as it was."""
    enrolled = {"sums": {0: bytes(32), 3: bytes(range(32))}}
    first = ServedJournal(tmp_path, SCENARIO, enrolled)
    closed(first)
    second = ServedJournal(tmp_path, SCENARIO)
    assert first.enrolled == second.enrolled == enrolled
    closed(second)


def test_a_run_is_gone_on_with_certificates_if_it_was_begun_with_them(tmp_path):
    closed(ServedJournal(tmp_path, described(scenario), {"sums": {0: bytes(32)}}))
    with pytest.raises(ValueError, match="was begun with certificates; resume it as it was begun"):
        next(serve(scenario, tmp_path, Listening("127.0.0.1:0", None)))


def test_a_journal_is_of_one_scenario_and_one_process(tmp_path):
    first = ServedJournal(tmp_path, SCENARIO)
    with pytest.raises(ValueError, match="another process plays"):
        ServedJournal(tmp_path, SCENARIO)
    closed(first)
    with pytest.raises(ValueError, match=r"was begun with another seed \(0, and 1 now\); resume it with that one"):
        ServedJournal(tmp_path, SCENARIO | {"seed": 1})


def test_the_logs_of_two_rounds_are_kept_and_a_round_without_the_one_before_is_refused(tmp_path):
    journal = ServedJournal(tmp_path, SCENARIO)
    assert not journal.began
    for round in range(5):
        log = journal.of(round, [round])
        assert [cbor2.loads(record) for record in log.records()] == [[round]]
        log.close()
    assert sorted(path.name for path in (tmp_path / JOURNAL).glob("round*")) == ["round-000003", "round-000004"]
    assert [cbor2.loads(record) for record in journal.of(3, ["another"]).records()] == [[3]]
    for round in (2, 6):
        with pytest.raises(ValueError, match="the run cannot go on"):
            journal.of(round, [])
    closed(journal)


@pytest.mark.parametrize("size", [0, 5])
def test_a_journal_that_is_damaged_at_its_beginning_is_refused_in_words(size, tmp_path):
    closed(ServedJournal(tmp_path, SCENARIO))
    os.truncate(tmp_path / JOURNAL / "setup", size)
    with pytest.raises(ValueError, match="damaged at its beginning"):
        ServedJournal(tmp_path, SCENARIO)


@pytest.mark.long
def test_a_run_that_did_not_begin_leaves_no_journal(tmp_path):
    where = Listening("127.0.0.1:0", None, wait=0.1)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"clients \[0, 1, 2, 3, 4, 5\] are not there, and the run begins with all of them"):
            next(serve(scenario, tmp_path / "run", where))
    assert not (tmp_path / "run" / JOURNAL).exists()


@pytest.mark.long
def test_a_run_that_nobody_is_ready_for_ends_in_words(tmp_path):
    def talking(link):
        link.start()
        try:
            for number, _ in link.words():
                link.answer(number, b"no answer")
        except LinkRefused as error:
            ended.append(str(error))

    links, threads, ended, keys = [], [], [], authority(tmp_path / "pki", 6)

    def told(port):
        for _ in range(6):
            links.append(Dialled(f"127.0.0.1:{port}", standing(keys, len(links))))
            threads.append(threading.Thread(target=talking, args=(links[-1],), daemon=True))
            threads[-1].start()

    with pytest.raises(ValueError, match="no client is ready for the run"):
        list(serve(plain, tmp_path / "run", Listening("127.0.0.1:0", standing(keys, -1), wait=20.0, told=told)))
    for thread, link in zip(threads, links, strict=True):
        thread.join(20)
        link.stop()
    assert len(ended) == 6
    assert set(ended) == {f"{IN_VAIN}; when it begins anew, join it with another --folder"}, "it is not over for them"
    assert not ServedJournal.there(tmp_path / "run")


def test_a_folder_with_a_run_that_is_over_is_refused(tmp_path):
    (tmp_path / "scenario.json").write_text("{}")
    with pytest.raises(ValueError, match="holds a run that was ended, or a simulation"):
        next(serve(scenario, tmp_path, Listening("127.0.0.1:0", None)))
    for name in ("summary.json", "link.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"is over: its models are in .*models; choose another --out for the next one"):
        next(serve(scenario, tmp_path, Listening("127.0.0.1:0", None)))


def test_a_run_in_which_no_sum_could_be_opened_is_refused_before_it_listens(tmp_path):
    few = replace(plain, protection=Masked(corrupt=40))
    with pytest.raises(ValueError, match="below the floor of 43"):
        next(serve(few, tmp_path / "run", Listening("127.0.0.1:0", None)))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("more", [(), ("--only", "seed")], ids=["at any time", "in the exchange of the seed, over TLS"])
def test_coordinators_and_clients_that_are_killed_lose_nothing(more):
    """`tests/kills.py` plays many more, and ends each life that takes two minutes."""
    command = [sys.executable, str(Path(__file__).with_name("kills.py")), "--kills", "15", "--seed", "7", *more]
    played = subprocess.run(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    found = json.loads(played.stdout)
    assert played.returncode == 0, found
    assert found["kills"] >= 15
    assert found["right"] + found["aborted"] == found["rounds"]  # of six clients a sum may lose one
    assert found["hangs"] == found["double answers"] == found["opened"] == 0
