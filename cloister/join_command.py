"""`cloister join`: one client of a deployment, a process of its own, over gRPC."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .deploying import Insecure, Keys, Set, scenario_of, standing_of
from .deployment.json_lines import log_to_stderr
from .errors_in_one_line import one_line_errors, room_in, say
from .protocol.core.errors import Revoked
from .signals import STOPPED, interrupting, on_signals

if TYPE_CHECKING:
    from .protocol.pki.standing import Standing

OF_SCENARIO = Path("scenario")
"""In place of a client's data: its share of the scenario's."""
NO_MODEL = 3
"""Exit code of a client whose run is over and handed it no model."""


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
        bool,
        typer.Option(
            "--check", help="Connect to nobody: say what is in --data, whose --keys are, and whether they fit the --scenario."
        ),
    ] = False,
) -> None:
    """Take part in a run as one client, with its own data.

    Try:  cloister join 127.0.0.1:7000 --scenario cloister:quickstart --client 0 --folder client0 --insecure-loopback

    The folder has the journal, from which it goes on after a crash with the same command; join.jsonl, the record of what it
    revealed, to whom, what it spent and refused, and when it was not there, which `cloister report FOLDER` shows; and at the end
    model.safetensors.

    Before that, with no coordinator there:  cloister join --check --data my.csv --scenario scenario.py

    Exit codes: 0 when the run is over, 3 where it is and handed this client no model, 1 for an error, 77 where the authority has
    revoked this client's certificate: do not start it again; 130 and 143 where it was stopped by a signal.
    """
    with one_line_errors(scenario, set_ or []):
        if check:
            _check(scenario, set_, seed, data, client, datasets, keys)
            return
        if address is None or scenario is None or folder is None:
            lacking = {"HOST:PORT": address, "--scenario": scenario, "--folder": folder}
            raise ValueError(f"give {' and '.join(name for name, value in lacking.items() if value is None)}, or --check")
        from .protocol.links.addresses import check_address

        check_address(address, "where the coordinator listens")
        if second is not None:
            check_address(second, "--second")
        standing = _own_standing(keys, insecure_loopback, folder)
        if standing is None and client is None:
            raise ValueError("which client is it? give --client, or --keys with its certificate")
        if standing is not None and (standing.party < 0 or client not in (None, standing.party)):
            raise ValueError(f"the keys in {keys} are not those of {'a client' if client is None else f'client {client}'}")
        from .fl.runs.joining import is_over
        from .fl.runs.joining import join as play
        from .fl.runs.serving import check_served
        from .protocol.links.dialled import Dialled

        found = scenario_of(scenario, set_, seed=seed)
        check_served(found)  # it would wait for a coordinator that there cannot be
        own = _own_data(found, data, standing is not None)
        log = log_to_stderr()
        if is_over(folder, client if standing is None else standing.party):
            why = "this run is over; for another, give another --folder"
            log.info("done", extra={"model": str(folder / "model.safetensors"), "why": why})
            return
        if standing is not None:
            standing.look_again()  # what ends soon is said before anything else
        link = Dialled(address, standing, client if standing is None else None, patience=patience)
        aside = None
        if second is not None:
            from .protocol.core.session import SECOND_SERVER
            from .protocol.two_servers.aside import Aside

            aside = Aside(Dialled(second, standing, patience=patience, server=SECOND_SERVER))
        counted = 0
        try:
            with on_signals(interrupting), room_in(folder):
                for what in play(found, link, folder, own=own, data=datasets, aside=aside, tells=not no_scores):
                    counted += 1
                    for blame, reason in what.refused:
                        log.warning("refused", extra={"of": blame, "why": reason})
        except KeyboardInterrupt as stopped:
            say("stopped; the same command goes on while the run lasts")
            raise typer.Exit(STOPPED[signal.Signals(stopped.args[0])]) from None
        if (model := folder / "model.safetensors").exists():
            log.info("done", extra={"words_answered": counted, "model": str(model)})
        else:
            why = (
                f"the coordinator says: {link.why}"
                if link.why
                else "it was in no cluster (as who comes after the first split under Masked), did not answer in time at the"
                " end, or the last round was not played"
            )
            goes_on = "where the coordinator goes on with the run, so does this command"
            none = f"the run is over, and handed this client no model: {why}; {goes_on}"
            log.warning("ended", extra={"words_answered": counted, "why": none})
            raise typer.Exit(NO_MODEL)


def _check(
    scenario: str | None,
    set_: list[str] | None,
    seed: int | None,
    data: Path | None,
    client: int | None,
    datasets: Path | None,
    keys: Path | None,
) -> None:
    """What `join --check` says. Raises ValueError of one line where the data do not fit, or the keys are not a client's."""
    from .fl.runs.serving import check_served
    from .own_data_check import fits, label_of, seen
    from .reporting.repeat import DRAWN
    from .scenario_file import draws_its_model

    if scenario is None and data is None and keys is None:
        raise ValueError("give --data, --scenario, --keys or all: there is nothing to check")
    found = None if scenario is None else scenario_of(scenario, set_, seed=seed)
    if found is not None:
        check_served(found)  # before words on the data, which are read by what the scenario agrees on
    data = data if found is None else _own_data(found, data, keys is not None)
    listed = None
    if keys is not None:
        client, listed = _whose(keys, client)
    if data is not None:
        for name, words in seen(data, None if found is None else label_of(found)):
            sys.stdout.write(f"{name:<12} {words}\n")
    if found is None or scenario is None:
        sys.stdout.write("whether it fits is to be seen with --scenario\n")
        return
    if draws_its_model(found, scenario, [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]):
        raise ValueError(f"the model is a finished module: {DRAWN}")
    for name, words in fits(found, data, client, datasets, listed):
        sys.stdout.write(f"{name:<12} {words}\n")
    sys.stdout.write("it fits\n")


def _own_data(scenario: Any, data: Path | None, keys: bool) -> Path | None:
    """Where a client's data are; None for its share of the scenario's. Raises ValueError where it has to say which."""
    if data == OF_SCENARIO:
        return None
    from .fl.data.agreed import MadeUp
    from .fl.data.given import CsvClients, FolderClients

    table = isinstance(scenario.data, CsvClients) and scenario.data.client is not None
    made_up = isinstance(scenario.data, MadeUp)
    if data is None and (keys or table or made_up or isinstance(scenario.data, FolderClients)):
        its = "records that are made up" if made_up else "its share of the scenario's data"
        what = f"the rows of {Path(scenario.data.path).name}" if table else its
        raise ValueError(f"give --data PATH: without it this client would train on {what}; if that is meant, --data scenario")
    if data is not None and not data.exists():  # said now, and not when the coordinator is there
        raise ValueError(f"there is no file or folder {data}; give this client's own as --data")
    return data


def _whose(keys: Path, client: int | None) -> tuple[int, int]:
    """Whose keys they are, after all that a link would be refused for at this end, and how many clients their directory lists;
    written out. Raises ValueError.
    """
    standing = standing_of(keys, False, notes=True)
    if standing is None or standing.party < 0 or client not in (None, standing.party):
        raise ValueError(f"the keys in {keys} are not those of {'a client' if client is None else f'client {client}'}")
    directory = standing.directory
    clients = sum(party >= 0 for party in directory.entries)
    of = f"of the run {directory.header.run!r}, directory {directory.header.version}"
    sys.stdout.write(f"{'keys':<12} client-{standing.party} {of}, which lists {clients} clients\n")
    for end in standing.soon_over:
        sys.stdout.write(f"{'expires':<12} the {end.of}, at {end.at}: {end.instead}\n")
    return standing.party, clients


def _own_standing(keys: Path | None, insecure: bool, folder: Path) -> "Standing | None":
    """As `standing_of`; that a client's certificate was taken back is in its record too, where it has one."""
    try:
        return standing_of(keys, insecure, notes=True)
    except Revoked as error:
        from .fl.runs.member import LOG, OwnRecord

        if (folder / LOG).is_file():
            OwnRecord(folder / LOG).left(error)
        raise
