"""`cloister second` and `cloister dealer`: the parties beside the coordinator that TwoServer needs, in processes of their own."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .deploying import File, Keys, Set, standing_of
from .deployment.json_lines import log_to_stderr
from .errors_in_one_line import one_line_errors, say
from .signals import STOPPED, interrupting, on_signals

if TYPE_CHECKING:
    from .protocol.links.dialled import Dialled
    from .protocol.two_servers.protection import TwoServer

Coordinator = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the coordinator listens, who is the first server.")]
Patience = Annotated[float, typer.Option(help="Seconds to go on trying to reach the coordinator.")]


def second(
    file: File,
    coordinator: Coordinator,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where clients and the dealer reach it; port 0 for any.")],
    keys: Keys,
    folder: Annotated[Path, typer.Option(help="This party's own: the journal of rounds and random numbers that are used up.")],
    set_: Set = None,
    patience: Patience = 600.0,
    due: Annotated[float, typer.Option(help="Seconds to wait for a client's key that the coordinator says was sent.")] = 60.0,
) -> None:
    """Be the second server of a run under TwoServer: hold clients' keys, and answer the coordinator what the floor allows.

    Try:  cloister second my_scenario.py --coordinator A:7000 --listen 0.0.0.0:7001 --keys second-server --folder second

    It protects only if somebody else than the coordinator runs it. The file says which terms it holds the coordinator to.
    Killed, it goes on with the same command: the round's updates are lost, and nothing is opened twice.
    """
    with one_line_errors():
        from .deployment.descriptors import raise_limit
        from .protocol.core.session import SECOND_SERVER
        from .protocol.links.addresses import check_address
        from .protocol.links.terms import Limits
        from .protocol.two_servers.deployed import ListeningAside, second_server

        check_address(listen, "--listen")
        how, link = _party(file, set_, keys, coordinator, patience, SECOND_SERVER)
        raise_limit()
        log = log_to_stderr()
        where = ListeningAside(
            listen,
            Limits(patience=due),
            lambda port: log.info("listening", extra={"address": listen, "port": port}),
        )
        _play(second_server(how, link, folder, where))


def dealer(
    file: File,
    coordinator: Coordinator,
    second: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the second server listens.")],
    keys: Keys,
    folder: Annotated[Path, typer.Option(help="This party's own: the journal of random numbers that are used up.")],
    set_: Set = None,
    patience: Patience = 600.0,
) -> None:
    """Be the dealer of a run under TwoServer: deal random triples, a half to each server. It sees nothing of updates.

    Try:  cloister dealer my_scenario.py --coordinator A:7000 --second B:7001 --keys dealer --folder dealer
    """
    with one_line_errors():
        from .protocol.core.session import DEALER, SECOND_SERVER
        from .protocol.links.addresses import check_address
        from .protocol.links.dialled import Dialled
        from .protocol.two_servers.aside import Aside
        from .protocol.two_servers.deployed import dealer as deal

        check_address(second, "--second")
        how, link = _party(file, set_, keys, coordinator, patience, DEALER)
        aside = Aside(Dialled(second, link.standing, patience=patience, server=SECOND_SERVER))
        log_to_stderr()
        _play(deal(how, link, aside, folder))


def _party(
    file: str, set_: list[str] | None, keys: Path | None, coordinator: str, patience: float, party: int
) -> "tuple[TwoServer, Dialled]":
    """What it holds others to, and its link to the coordinator. Raises ValueError of one line."""
    from .protocol.links.addresses import check_address

    check_address(coordinator, "--coordinator")
    standing = standing_of(keys, insecure=False, notes=True)
    from .protocol.links.dialled import Dialled
    from .protocol.pki.names import name_of
    from .server_terms import two_servers_of

    if standing is None or standing.party != party:
        raise ValueError(f"the keys in {keys} are not those of the {name_of(party)}")
    log_to_stderr()
    standing.look_again()  # what ends soon is said before anything else
    return two_servers_of(file, set_ or []), Dialled(coordinator, standing, patience=patience)


def _play(told: Iterator[Any]) -> None:
    """To the end, with a line in the log for each word."""
    log = log_to_stderr()
    counted = 0
    try:
        with on_signals(interrupting):
            for word in told:
                counted += 1
                said = [kind for _, kind, _ in word.followed.sent]
                log.info("told", extra={"kind": word.what, "said": said})
                for blame, reason in word.followed.refused:
                    log.warning("refused", extra={"of": blame, "why": reason})
    except KeyboardInterrupt as stopped:
        say("stopped; the same command goes on while the run lasts")
        raise typer.Exit(STOPPED[signal.Signals(stopped.args[0])]) from None
    log.info("done", extra={"words_answered": counted})
