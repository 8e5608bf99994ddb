"""`cloister serve`: the coordinator of clients in processes of their own, over gRPC."""

import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .deploying import File, Insecure, Keys, Set, scenario_of, standing_of
from .deployment.json_lines import log_to_stderr
from .deployment.operated import operated
from .errors_in_one_line import one_line_errors, room_in, said_in_a_line, say
from .signals import STOPPED, on_signals

if TYPE_CHECKING:
    from .fl.runs.vitals import Control


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
        int | None,
        typer.Option(
            help="Clients that must be there for the run to begin. Default: all, the revoked too. The sums of two rounds"
            " tell who came between them; under Masked who comes after CFL's first split gets no model.",
            min=1,
        ),
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
    with one_line_errors(file, set_ or []):
        from .protocol.core.session import SERVER
        from .protocol.links.addresses import check_address

        check_address(listen, "--listen")
        if metrics is not None and metrics.rpartition(":")[2] == listen.rpartition(":")[2] != "0":
            raise ValueError(f"--listen {listen} and --metrics {metrics} are one port: give each its own")
        if not 0 <= wait < math.inf:
            raise ValueError(f"--wait is seconds, from 0 on, not {wait:g}")
        standing = standing_of(keys, insecure_loopback)
        if standing is not None and standing.party != SERVER:
            raise ValueError(f"the keys in {keys} are not the coordinator's")
        if standing is not None:
            log_to_stderr()
            standing.look_again()  # what ends soon is said before anybody waits
        from .deployment.descriptors import raise_limit
        from .deployment.log import Told
        from .fl.data.agreed import MadeUp
        from .fl.data.given import CsvClients, FolderClients
        from .fl.runs.listening import Listening
        from .fl.runs.outweighing import least_share
        from .fl.runs.serving import last_line
        from .fl.runs.serving import serve as play
        from .fl.runs.to_compare import sampled_apart
        from .fl.runs.vitals import Control
        from .protocol.core.halt import Halted
        from .protocol.links.terms import Limits, grpc_or_words

        scenario = scenario_of(file, set_, rounds=rounds, seed=seed)
        grpc_or_words()  # before anything listens
        asked = "where clients have data of their own, --ask-scores asks them"
        if isinstance(scenario.data, CsvClients | FolderClients) and not ask_scores:
            of = Path(scenario.data.path).name
            log_to_stderr().warning("accuracy is of the scenario's own data", extra={"data": of, "instead": asked})
        if isinstance(scenario.data, MadeUp) and not ask_scores:
            log_to_stderr().warning("nobody says how well models predict", extra={"instead": asked})
        if share := least_share(scenario):
            why = f"one with a client of more than 1/{share} of the squares of all counts is withheld; a run without any ends"
            instead = "where counts may be so uneven, algorithm.by_samples=False; each client sees what it needs by join --check"
            log_to_stderr().warning("sums count samples", extra={"why": why, "instead": instead})
        if count := sampled_apart(scenario.algorithm):
            why = f"each is compared by samples of {count} of its records, and one with fewer cannot take part"
            instead = "another algorithm.size.limit, agreed on by all; each client sees by join --check whether it has enough"
            log_to_stderr().warning("clients are compared by their records", extra={"why": why, "instead": instead})
        folder = out or Path("runs") / f"{scenario.name.replace(' ', '-').replace('/', '-')}-served"
        raise_limit()
        log, control = log_to_stderr(), Control()
        told = Told(log, {i: of["cluster"] for of in last_line(folder).get("stood_still") or () for i in of["clients"]})
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
            with operated(control, metrics, least or 0, log), on_signals(_stopping(control)), said_in_a_line(), room_in(folder):
                for done in play(scenario, folder, where, data):
                    told.round(done)
        except Halted:
            of = f"stopped after {control.vitals().round} of {scenario.rounds} rounds; the same command goes on from {folder}"
            say(of + (", with clients that are started again" if control.leave else ", and clients wait for it"))
            raise typer.Exit(STOPPED[signal.SIGINT if control.leave else signal.SIGTERM]) from None
        log.info("over", extra={"folder": str(folder), "next": "its report is written"})
        log.info("done", extra={"folder": str(folder), "report": str(_reported(folder))})


def _reported(folder: Path) -> Path:
    """The report of a run that is over. Raises OSError of one line that says what is there without it; Ctrl-C says so, too."""
    try:
        from .reporting.report import write_report  # here, as it loads what draws, which takes long the first time on a machine

        return write_report(folder)
    except KeyboardInterrupt:
        say(f"stopped; the run is over, and its folder is complete but for the report, which `cloister report {folder}` writes")
        raise typer.Exit(STOPPED[signal.SIGINT]) from None
    except OSError as error:
        why = f"the run is over, and its folder is complete but for the report, which is not written: {error.strerror or error}"
        raise OSError(f"{why}; when that is put right, `cloister report {folder}` writes it") from None


def _stopping(control: "Control") -> Callable[[int, Any], None]:
    return lambda number, _: control.stop(leave=number == signal.SIGINT)
