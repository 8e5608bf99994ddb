"""What an operator sees of a run in progress: metrics and health over HTTP, and the terminal view."""

import io
import logging
import socket
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from cloister.deployment.live import live, shown
from cloister.deployment.metrics import COUNTERS, GAUGES, Metrics
from cloister.deployment.operated import operated
from cloister.fl.runs.vitals import Control, Vitals, Watched
from cloister.progress import shown as shown_on
from cloister.protocol.links.listener import Listener

busy = Vitals(
    round=3,
    rounds=10,
    cohort=8,
    connected=7,
    clusters=2,
    accuracy=0.875,
    stage="MaskedInput",
    owing={0: 0.5, 3: 12.4, 5: 30.2},
    unanswered=4,
    late=1,
    bytes_in=12_000_000,
    bytes_out=3_400_000,
    displaced=1,
)


@contextmanager
def served(now, least=4):
    metrics = Metrics("127.0.0.1:0", now, least)
    at = metrics.start()
    try:
        yield at
    finally:
        metrics.stop()


def got(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_are_what_prometheus_reads():
    parser = pytest.importorskip("prometheus_client.parser")
    with served(lambda: busy) as at:
        status, text = got(f"{at}/metrics")
    assert status == 200
    found = {s.name: s.value for family in parser.text_string_to_metric_families(text) for s in family.samples}
    assert {f"cloister_{name}" for name in GAUGES} <= set(found)
    assert {f"cloister_{name}_total" for name in COUNTERS} <= set(found)
    assert found["cloister_round"] == 3
    assert found["cloister_owing"] == 3
    assert found["cloister_owing_longest_seconds"] == 30.2
    assert found["cloister_bytes_in_total"] == 12_000_000
    assert found["cloister_accuracy"] == 0.875
    assert found["cloister_running"] == 1


def test_metrics_follow_the_run_and_say_nothing_of_accuracy_before_there_is_one():
    moments = iter([Vitals(), replace(busy, running=False)])
    with served(lambda: next(moments)) as at:
        before, after = got(f"{at}/metrics")[1], got(f"{at}/metrics")[1]
    assert "cloister_accuracy" not in before
    assert "cloister_round 0.0" in before
    assert "cloister_running 0.0" in after


@pytest.mark.parametrize(
    ("path", "vitals", "status"),
    [
        ("health", busy, 200),
        ("health", replace(busy, running=False), 503),
        ("ready", busy, 200),
        ("ready", replace(busy, connected=3), 503),
        ("else", busy, 404),
        ("metrics?x=1", busy, 200),
    ],
    ids=["healthy", "over", "ready", "too few", "no such path", "with a query"],
)
def test_health_is_a_status(path, vitals, status):
    with served(lambda: vitals) as at:
        assert got(f"{at}/{path}")[0] == status


def test_a_coordinator_is_not_healthy_before_it_listens():
    control = Control()
    with served(lambda: control.vitals()) as at:
        assert got(f"{at}/health") == (503, "starting\n")
        assert "cloister_running 0.0" in got(f"{at}/metrics")[1]
        hosts = SimpleNamespace(listener=None, linked=SimpleNamespace(stage="", absent={}, late=0), round=0)
        control.vitals = (watched := Watched(hosts, 8, 10, 1)).vitals
        assert got(f"{at}/health") == (503, "starting\n")
        hosts.listener = Listener("127.0.0.1:0", range(8), lambda client: b"", None)
        assert got(f"{at}/health") == (200, "ok\n")
        watched.running = False
        assert got(f"{at}/health") == (503, "over\n")


def test_a_new_life_says_what_the_last_round_of_the_one_before_left():
    """Before: no cluster, and none that stands still, until a round was over: an alarm resolved by itself at a restart."""
    hosts = SimpleNamespace(listener=None, linked=SimpleNamespace(stage="", absent={}, late=0), round=3)
    still = [
        {"cluster": "1", "since": 2, "clients": [3, 4], "why": ""},
        {"cluster": "gone", "since": 1, "clients": [2], "why": ""},
    ]
    line = {"clusters": {"0": [0, 1, 2], "1": [3, 4]}, "stood_still": still, "accuracy_mean": 0.75}
    found = Watched(hosts, 8, 10, 2, line).vitals()
    assert (found.clusters, found.stopped, found.unplaced, found.accuracy) == (2, {"1": 2}, 3, 0.75)
    fresh = Watched(hosts, 8, 10, 1).vitals()
    assert (fresh.clusters, fresh.stopped, fresh.unplaced, fresh.accuracy) == (0, {}, 0, None)


@pytest.mark.parametrize("address", ["", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_one_line(address):
    with pytest.raises(ValueError, match="HOST:PORT"):
        Metrics(address, lambda: busy, 1)


def test_an_address_that_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="metrics cannot be served at"):
            Metrics(f"127.0.0.1:{taken.getsockname()[1]}", lambda: busy, 1)


def text_of(vitals):
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(shown(vitals))
    return out.getvalue()


def test_the_view_names_round_cohort_stage_and_stragglers_longest_first():
    text = text_of(busy)
    counted = ("12.0 MB in", "4 unanswered", "1 displaced")
    for words in ("3 of 10", "7 of 8 connected", "2, accuracy 87.5 %", "MaskedInput", *counted):
        assert words in text
    assert "client 5 (30 s), client 3 (12 s)" in text
    assert "client 0" not in text


def test_the_view_counts_those_that_it_has_no_room_for():
    text = text_of(replace(busy, owing=dict.fromkeys(range(9), 10.0)))
    assert "and 4 more" in text
    assert "client 5" not in text


def test_who_is_missing_is_named_longest_first():
    text = text_of(Vitals(rounds=2, cohort=9, connected=2, missing={1: 3.0, 4: 61.2} | dict.fromkeys(range(5, 10), 1.0)))
    assert "client 4 (61 s), client 1 (3 s), client 5 (1 s), client 6 (1 s), client 7 (1 s) and 2 more" in text
    assert "missing" not in text_of(Vitals(rounds=2))


def test_one_answer_is_one():
    assert "1 answer" in (text := text_of(Vitals(rounds=2, owing={1: 0.1})))
    assert "1 answers" not in text


def test_answers_that_are_not_slow_are_counted_only():
    text = text_of(replace(busy, owing={1: 0.1, 2: 0.1, 3: 0.2}))
    assert "3 answers" in text
    assert "client" not in text.replace("clients", "")


def test_a_console_that_is_no_terminal_gets_no_view():
    out = io.StringIO()
    with live(lambda: busy, Console(file=out, force_terminal=False)):
        pass
    assert out.getvalue() == ""


def test_colours_that_are_forced_make_no_terminal_of_a_log(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with operated(Control(), None, 0, logging.getLogger("t")):
        pass
    with shown_on(sys.stderr, always=True) as tell:
        tell("cells", 0, 2, "")
    assert capsys.readouterr().err.count("\x1b[2K") == 0


def test_a_terminal_gets_it():
    out = io.StringIO()
    left = Vitals(rounds=10, round=10, cohort=12, missing={5: 0.0})
    now = [busy]
    with live(lambda: now[0], Console(file=out, force_terminal=True, width=80)):
        end = time.monotonic() + 20
        while "3 of 10" not in out.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
        before = len(out.getvalue())
        now[0] = left
    assert "3 of 10" in out.getvalue()
    assert "missing" not in out.getvalue()[before:], "at the end everybody is away, and that is no news"
