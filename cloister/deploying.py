"""`cloister serve` and `cloister join`: a coordinator and its clients, each a process of its own, over gRPC."""

import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors_in_one_line import Failure, one_line_errors
from .passphrase import passphrase

if TYPE_CHECKING:
    from .protocol.pki.standing import Standing

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
    """A log entry as one line of JSON: time, level, what, and what belongs to it. Nothing that is logged is secret."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        more = {key: value for key, value in vars(record).items() if key not in _OF_A_RECORD}
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "what": record.getMessage(), **more}
        return json.dumps(line, default=str)


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
    wait: Annotated[float, typer.Option(help="Seconds until enough clients are there, or the run does not begin.")] = 120.0,
    least: Annotated[
        int | None, typer.Option(help="Clients that must be there for the run to begin. Default: all.", min=1)
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds in which a client may move nothing before it is absent.")] = 60.0,
    slots: Annotated[int, typer.Option(help="Long messages that are taken at once.", min=1)] = 8,
) -> None:
    """Run a scenario as the coordinator of clients in processes of their own.

    Try:  cloister serve examples/quickstart.py --listen 127.0.0.1:7000 --insecure-loopback --rounds 5

    The run folder is that of `cloister run`, with link.json beside it. Ctrl-C ends the run; clients are told. Killed in any other
    way it goes on with the same command, and so do the clients, which wait. A newer directory or revocation list in --keys is
    taken while the run lasts: whoever is revoked is sent away.
    """
    with one_line_errors():
        from .protocol.core.session import SERVER

        standing = standing_of(keys, insecure_loopback)
        if standing is not None and standing.party != SERVER:
            raise ValueError(f"the keys in {keys} are not the coordinator's")
        from .fl.runs.serving import Listening
        from .fl.runs.serving import serve as play
        from .protocol.links.terms import Limits
        from .reporting.report import write_report

        scenario = scenario_of(file, set_, rounds=rounds, seed=seed)
        folder = out or Path("runs") / f"{scenario.name.replace(' ', '-').replace('/', '-')}-served"
        log = log_to_stderr()
        where = Listening(
            listen,
            standing,
            Limits(patience=patience, slots=slots),
            wait,
            least,
            lambda port: log.info("listening", extra={"address": listen, "port": port}),
        )
        try:
            for done in play(scenario, folder, where, data):
                log.info(
                    "round", extra={"round": done.round, "of": done.rounds, "clusters": done.clusters, "accuracy": done.accuracy}
                )
        except KeyboardInterrupt:
            raise Failure(f"stopped; what there is of the run is in {folder}") from None
        log.info("done", extra={"folder": str(folder), "report": str(write_report(folder))})


def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the coordinator listens.")],
    scenario: Annotated[str, typer.Option(metavar="FILE[:NAME]", help="The scenario that this client agrees to take part in.")],
    folder: Annotated[Path, typer.Option(help="This client's own: journal, record and final model.")],
    data: Annotated[
        Path | None, typer.Option(help="Its data: a CSV file, label last, or a folder of images by label. Default: its share.")
    ] = None,
    client: Annotated[int | None, typer.Option(help="Which client it is; with --keys its certificate says so.", min=0)] = None,
    keys: Keys = None,
    insecure_loopback: Insecure = False,
    seed: Annotated[int | None, typer.Option(help="The run's seed, as the coordinator has it.")] = None,
    datasets: Annotated[Path | None, typer.Option(help="Folder of the data sets, for its share of one.")] = None,
    set_: Set = None,
    patience: Annotated[float, typer.Option(help="Seconds without the coordinator, tried again, until it gives up.")] = 600.0,
    second: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the second server listens, under TwoServer: a link of its own.")
    ] = None,
) -> None:
    """Take part in a run as one client, with its own data.

    Try:  cloister join 127.0.0.1:7000 --scenario examples/quickstart.py --client 0 --folder client0 --insecure-loopback

    The folder has the journal, from which it goes on after a crash with the same command; join.jsonl, the record of what it
    revealed, to whom, and what it refused; and at the end model.safetensors.
    """
    with one_line_errors():
        standing = standing_of(keys, insecure_loopback)
        if standing is None and client is None:
            raise ValueError("which client is it? give --client, or --keys with its certificate")
        if standing is not None and (standing.party < 0 or client not in (None, standing.party)):
            raise ValueError(f"the keys in {keys} are not those of {'a client' if client is None else f'client {client}'}")
        from .fl.runs.joining import join as play
        from .protocol.links.dialled import Dialled

        found = scenario_of(scenario, set_, seed=seed)
        log = log_to_stderr()
        link = Dialled(address, standing, client if standing is None else None, patience=patience)
        aside = None
        if second is not None:
            from .protocol.core.session import SECOND_SERVER
            from .protocol.two_servers.aside import Aside

            aside = Aside(Dialled(second, standing, patience=patience, server=SECOND_SERVER))
        counted = 0
        try:
            for what in play(found, link, folder, own=data, data=datasets, aside=aside):
                counted += 1
                for blame, reason in what.refused:
                    log.warning("refused", extra={"of": blame, "why": reason})
        except KeyboardInterrupt:
            raise Failure("stopped; the same command goes on while the run lasts") from None
        log.info("done", extra={"words": counted, "model": str(folder / "model.safetensors")})


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


def log_to_stderr() -> logging.Logger:
    """As JSON lines on stderr."""
    log = logging.getLogger("cloister")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    return log
