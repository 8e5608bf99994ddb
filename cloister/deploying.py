"""`cloister serve` and `cloister join`: a coordinator and its clients, each a process of its own, over gRPC."""

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors_in_one_line import Failure, one_line_errors, say
from .passphrase import passphrase
from .protocol.core.errors import Revoked

if TYPE_CHECKING:
    from .fl.runs.vitals import Control
    from .protocol.pki.standing import Standing

STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit codes of whoever was asked to stop, as shells have them."""
OF_SCENARIO = Path("scenario")
"""In place of a client's data: its share of the scenario's."""
_OF_A_RECORD = frozenset(vars(logging.makeLogRecord({})))

File = Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Scenario; NAME picks one of several.")]
Keys = Annotated[
    Path | None,
    typer.Option(help="This party's folder, as `cloister keys` makes it: keys, certificate, and what the authority says of all."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure-loopback", help="No certificates, on this machine alone: anybody on it can be any client.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any field. Repeatable.")]


class JsonLines(logging.Formatter):
    """A log entry as one line of JSON: time, level, what, and what belongs to it. Nothing that is logged is secret, and of bytes
    it has their number alone.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        more = {key: value for key, value in vars(record).items() if key not in _OF_A_RECORD}
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "what": record.getMessage(), **more}
        return json.dumps(line, default=_plain)


class _OnStderr(logging.Handler):
    """Lines on whatever is stderr at the time, so that they go above a view of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def serve(
    file: File,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 for any.")],
    keys: Keys = None,
    insecure_loopback: Insecure = False,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of data, models and sampling; as clients have it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write. Default: runs/NAME-served.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets that models are scored on.")] = None,
    set_: Set = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for enough clients; then the run does not begin.")] = 120.0,
    least: Annotated[
        int | None, typer.Option(help="Clients that must be there for the run to begin. Default: all.", min=1)
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds without progress after which a client counts as absent.")] = 60.0,
    slots: Annotated[int, typer.Option(help="Uploads that are received at the same time.", min=1)] = 4,
    ask_scores: Annotated[
        bool, typer.Option("--ask-scores", help="Ask clients how well they predict, also where the scenario's data would tell.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help="Where to serve /metrics for Prometheus, /health and /ready, over HTTP to anybody."
        ),
    ] = None,
) -> None:
    """Run a scenario as the coordinator of clients in processes of their own.

    Try:  cloister serve cloister:quickstart --listen 127.0.0.1:7000 --insecure-loopback --rounds 5

    The run folder is that of `cloister run`, with link.json beside it. On a terminal there is a view of the run beside the log.
    Stopped by SIGTERM, or killed, it goes on with the same command, and so do the clients, which wait. Ctrl-C tells clients that
    it is over; started again, they go on too. A newer directory or revocation list in --keys is taken while the run lasts:
    whoever is revoked is sent away.
    """
    with one_line_errors():
        from .protocol.core.session import SERVER

        standing = standing_of(keys, insecure_loopback)
        if standing is not None and standing.party != SERVER:
            raise ValueError(f"the keys in {keys} are not the coordinator's")
        from .deployment.log import Told
        from .fl.data.given import CsvClients
        from .fl.runs.serving import Listening
        from .fl.runs.serving import serve as play
        from .fl.runs.vitals import Control
        from .protocol.core.halt import Halted
        from .protocol.links.terms import Limits

        scenario = scenario_of(file, set_, rounds=rounds, seed=seed)
        if isinstance(scenario.data, CsvClients) and not ask_scores:
            of, asked = Path(scenario.data.path).name, "where clients have data of their own, --ask-scores asks them"
            log_to_stderr().warning("accuracy is of the scenario's own table", extra={"table": of, "instead": asked})
        folder = out or Path("runs") / f"{scenario.name.replace(' ', '-').replace('/', '-')}-served"
        log, control = log_to_stderr(), Control()
        told = Told(log)
        where = Listening(
            listen,
            standing,
            Limits(patience=patience, slots=slots),
            wait,
            least,
            lambda port: log.info("listening", extra={"address": listen, "port": port}),
            control,
            ask_scores,
        )
        try:
            with _operated(control, metrics, least or 0, log), on_signals(_stopping(control)):
                for done in play(scenario, folder, where, data):
                    told.round(done)
        except Halted:
            of = f"stopped after {control.vitals().round} of {scenario.rounds} rounds; the same command goes on from {folder}"
            say(of + (", with clients that are started again" if control.leave else ", and clients wait for it"))
            raise typer.Exit(STOPPED[signal.SIGINT if control.leave else signal.SIGTERM]) from None
        from .reporting.report import write_report  # here, as it loads what draws, which takes long the first time on a machine

        log.info("done", extra={"folder": str(folder), "report": str(write_report(folder))})


def join(
    address: Annotated[str | None, typer.Argument(metavar="HOST:PORT", help="Where the coordinator listens.")] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="FILE[:NAME]", help="The scenario that this client agrees to take part in.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="This client's own: journal, record and final model.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Its data: a CSV file, label last, or a folder of images by label; the word scenario for its share of the"
            " scenario's own data, which is the default where nothing hangs on it: without --keys, and without an agreed table."
        ),
    ] = None,
    client: Annotated[int | None, typer.Option(help="Which client it is; with --keys its certificate says so.", min=0)] = None,
    keys: Keys = None,
    insecure_loopback: Insecure = False,
    seed: Annotated[int | None, typer.Option(help="The run's seed, as the coordinator has it.")] = None,
    datasets: Annotated[Path | None, typer.Option(help="Folder of the data sets, for its share of one.")] = None,
    set_: Set = None,
    patience: Annotated[float, typer.Option(help="Seconds to go on trying to reach the coordinator.")] = 600.0,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="Tell nobody how well its models do on its own test records.")
    ] = False,
    second: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the second server listens, under TwoServer: a link of its own.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Connect to nobody: say what is in --data, and whether it fits the --scenario.")
    ] = False,
) -> None:
    """Take part in a run as one client, with its own data.

    Try:  cloister join 127.0.0.1:7000 --scenario cloister:quickstart --client 0 --folder client0 --insecure-loopback

    The folder has the journal, from which it goes on after a crash with the same command; join.jsonl, the record of what it
    revealed, to whom, what it spent and refused, and when it was not there, which `cloister report FOLDER` shows; and at the end
    model.safetensors.

    Before that, with no coordinator there:  cloister join --check --data my.csv --scenario scenario.py

    Exit codes: 0 when the run is over, 1 for an error, 77 where the authority has revoked this client's certificate: do not start
    it again; 130 and 143 where it was stopped by a signal.
    """
    with one_line_errors():
        if check:
            _check(scenario, set_, seed, data, client, datasets, keys is not None)
            return
        if address is None or scenario is None or folder is None:
            lacking = {"HOST:PORT": address, "--scenario": scenario, "--folder": folder}
            raise ValueError(f"give {' and '.join(name for name, value in lacking.items() if value is None)}, or --check")
        standing = _own_standing(keys, insecure_loopback, folder)
        if standing is None and client is None:
            raise ValueError("which client is it? give --client, or --keys with its certificate")
        if standing is not None and (standing.party < 0 or client not in (None, standing.party)):
            raise ValueError(f"the keys in {keys} are not those of {'a client' if client is None else f'client {client}'}")
        from .fl.runs.joining import is_over
        from .fl.runs.joining import join as play
        from .protocol.links.dialled import Dialled

        found = scenario_of(scenario, set_, seed=seed)
        own = _own_data(found, data, standing is not None)
        log = log_to_stderr()
        if is_over(folder):
            why = "this run is over; for another, give another --folder"
            log.info("done", extra={"model": str(folder / "model.safetensors"), "why": why})
            return
        link = Dialled(address, standing, client if standing is None else None, patience=patience)
        aside = None
        if second is not None:
            from .protocol.core.session import SECOND_SERVER
            from .protocol.two_servers.aside import Aside

            aside = Aside(Dialled(second, standing, patience=patience, server=SECOND_SERVER))
        counted = 0
        try:
            with on_signals(interrupting):
                for what in play(found, link, folder, own=own, data=datasets, aside=aside, tells=not no_scores):
                    counted += 1
                    for blame, reason in what.refused:
                        log.warning("refused", extra={"of": blame, "why": reason})
        except KeyboardInterrupt as stopped:
            say("stopped; the same command goes on while the run lasts")
            raise typer.Exit(STOPPED[signal.Signals(stopped.args[0])]) from None
        if (model := folder / "model.safetensors").exists():
            log.info("done", extra={"words": counted, "model": str(model)})
        else:
            why = "the run is over, and handed this client no model: it was in no cluster, or the last round was not played"
            log.warning("ended", extra={"words": counted, "why": why})


def _check(
    scenario: str | None,
    set_: list[str] | None,
    seed: int | None,
    data: Path | None,
    client: int | None,
    datasets: Path | None,
    keys: bool,
) -> None:
    """What `join --check` says. Raises ValueError of one line where the data do not fit."""
    from .own_data_check import fits, label_of, seen
    from .reporting.repeat import DRAWN
    from .scenario_file import draws_its_model

    if scenario is None and data is None:
        raise ValueError("give --data, --scenario or both: there is nothing to check")
    found = None if scenario is None else scenario_of(scenario, set_, seed=seed)
    data = data if found is None else _own_data(found, data, keys)
    if data is not None:
        for name, words in seen(data, None if found is None else label_of(found)):
            sys.stdout.write(f"{name:<12} {words}\n")
    if found is None or scenario is None:
        sys.stdout.write("whether it fits is to be seen with --scenario\n")
        return
    if draws_its_model(found, scenario, [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]):
        raise ValueError(f"the model is a finished module: {DRAWN}")
    for name, words in fits(found, data, client, datasets):
        sys.stdout.write(f"{name:<12} {words}\n")
    sys.stdout.write("it fits\n")


def _own_data(scenario: Any, data: Path | None, keys: bool) -> Path | None:
    """Where a client's data are; None for its share of the scenario's. Raises ValueError where it has to say which."""
    if data == OF_SCENARIO:
        return None
    from .fl.data.given import CsvClients

    table = isinstance(scenario.data, CsvClients) and scenario.data.client is not None
    if data is None and (keys or table):
        what = f"the rows of {Path(scenario.data.path).name}" if table else "its share of the scenario's data"
        raise ValueError(f"give --data FILE: without it this client would train on {what}; if that is meant, --data scenario")
    return data


def scenario_of(file: str, set_: list[str] | None, **given: int | None) -> Any:
    from .scenario_file import load, with_settings

    return with_settings(load(file), [*(set_ or []), *(f"{name}={value}" for name, value in given.items() if value is not None)])


def standing_of(keys: Path | None, insecure: bool) -> "Standing | None":
    """Raises ValueError of one line."""
    if (keys is None) != insecure:
        raise ValueError("give either --keys FOLDER or, on this machine alone, --insecure-loopback")
    if keys is None:
        return None
    from .protocol.pki.standing import Standing

    return Standing(keys, passphrase())


def _own_standing(keys: Path | None, insecure: bool, folder: Path) -> "Standing | None":
    """As `standing_of`; that a client's certificate was taken back is in its record too, where it has one."""
    try:
        return standing_of(keys, insecure)
    except Revoked as error:
        from .fl.runs.member import LOG, OwnRecord

        if (folder / LOG).is_file():
            OwnRecord(folder / LOG).left(error)
        raise


def _plain(value: object) -> str:
    """Of what JSON has no word for."""
    return f"{len(value)} bytes" if isinstance(value, bytes | bytearray | memoryview) else str(value)


@contextmanager
def _operated(control: "Control", metrics: str | None, least: int, log: logging.Logger) -> Iterator[None]:
    """While it lasts, the run is to be seen: over HTTP, if that is asked for, and on a terminal."""
    from rich.console import Console

    from .deployment.live import live
    from .deployment.metrics import Metrics

    def now() -> Any:
        return control.vitals()

    with ExitStack() as stack:
        if metrics is not None:
            try:
                served = Metrics(metrics, now, least)
            except ImportError as error:
                raise Failure(str(error)) from None
            log.info("metrics", extra={"at": f"{served.start()}/metrics"})
            stack.callback(served.stop)
        stack.enter_context(live(now, Console(stderr=True, force_terminal=sys.stderr.isatty())))  # FORCE_COLOR is no terminal
        yield


@contextmanager
def on_signals(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to this, once: a second one ends the process as any kill does. In the main thread alone."""

    def first(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        handle(number, frame)

    mine = STOPPED if threading.current_thread() is threading.main_thread() else {}
    before = {number: signal.signal(number, first) for number in mine}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stopping(control: "Control") -> Callable[[int, Any], None]:
    return lambda number, _: control.stop(leave=number == signal.SIGINT)


def interrupting(number: int, _: Any) -> None:
    raise KeyboardInterrupt(number)


def log_to_stderr() -> logging.Logger:
    """As JSON lines on stderr."""
    log = logging.getLogger("cloister")
    if not log.handlers:
        handler = _OnStderr()
        handler.setFormatter(JsonLines())
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    return log
