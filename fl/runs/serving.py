"""A scenario's run whose clients are elsewhere: this process is the coordinator, and has none of their data, keys or computers.

Rounds, run folder and report are those of a simulation. Killed at any moment, it goes on from its journal, with nothing lost.
Scores are of the scenario's own data where the server has the models; where clients own or weigh them, or where it is to be so,
clients say how well they predict, if they do (protocol/specs/scores.md). What else it is told are the messages of its protection.
"""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...protocol.core.errors import ProtocolError, Refused
from ...protocol.core.halt import Halted
from ...protocol.encrypted.protection import Encrypted
from ...protocol.links.background import long_blocks_apart
from ...protocol.links.listener import Listener
from ...protocol.links.pauses import LONGEST_PAUSE
from ...protocol.links.terms import IN_VAIN
from ...protocol.masked.protection import Masked
from ...protocol.pki.directory import Directory
from ...protocol.pki.names import name_of
from ...protocol.two_servers.protection import TwoServer
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from .agreement import terms_of
from .attempts import Attempts
from .dealt import Apportioned
from .experiment import Round, run
from .feasibility import check_feasible
from .hosts import OF_NUMBERS
from .linked_hosts import LinkedHosts, who_left
from .listening import Expected, Listening, helpers_of, started, wait_for_helpers, wait_for_more, wait_for_somebody
from .lost_round import NothingLearned
from .other_terms import OtherTerms
from .parties import Parties
from .presence import Presence
from .run_folder import RunFolder
from .scenario import Scenario, described
from .served_journal import ServedJournal
from .too_few import HELPERS, wait_for_enough
from .vitals import Watched

SERVED = (Masked, Plain, Permuted, Encrypted, TwoServer)
"""Protections that are played between processes."""
BEGIN_ANEW = "give the same command again, and every client another --folder"


def check_served(scenario: Scenario[Any]) -> None:
    """Raise Refused for what clients in processes of their own cannot do yet, naming what would."""
    if not isinstance(scenario.protection, SERVED):
        kinds = [kind.__name__ for kind in SERVED]
        known = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise Refused(f"{scenario.protection!r} is not played between processes yet; use {known}")
    if getattr(scenario.data, "numbers", False):
        raise Refused(OF_NUMBERS)
    if scenario.adversary is not None:
        raise Refused("an adversary, who is simulated, is not played between processes; simulate it with `cloister run`")


def serve(scenario: Scenario[Any], out: Path, listening: Listening, data: Path | None = None) -> Iterator[Round]:
    """Play the scenario's rounds with clients over links, yielding after each; the run folder is complete when it ends.

    Where the folder has the journal of a run that is not over, this goes on with it. The folder holds link.json,
    presence.jsonl and other_terms.jsonl beside what a simulation's does: bytes on links, who was absent and when, who was
    displaced, who had another scenario. Raises Refused for what cannot be played so, ValueError where clients are missing or
    not in the directory, and for a journal that cannot be gone on from, OSError for an address that cannot be listened at, and
    where a second server, a dealer or every client is away for too long: clients wait, and the run may go on later. Raises Halted
    where `listening.control` stopped it.
    """
    check_served(scenario)
    long_blocks_apart()  # here already: what is made and forgotten before the links begin is given back, too
    resumed = ServedJournal.there(out)
    if not resumed and (out / "summary.json").exists() and (out / "link.json").exists():
        raise ValueError(f"the run in {out} is over: its models are in {out / 'models'}; choose another --out for the next one")
    if not resumed and (out / "scenario.json").exists():
        raise ValueError(f"{out} holds a run that was ended, or a simulation; choose another --out")
    dealt, standing = Apportioned.of(scenario, data), listening.standing
    expected = _expected(scenario, data, dealt)
    clients = expected.clients
    if listening.least is not None and listening.least > len(clients):
        raise ValueError(f"--least is {listening.least}, and the scenario has {len(clients)} clients")
    check_feasible(scenario, len(clients))
    directory = None if standing is None else standing.directory
    if isinstance(scenario.protection, TwoServer):
        _check_listed(directory)
    fresh = None if directory is None or resumed else directory.enrolled(clients)
    journal = ServedJournal(out, described(scenario), fresh)
    if (journal.enrolled is None) != (directory is None):
        journal.close()
        raise ValueError(
            f"the run in {out} was begun {'without' if directory else 'with'} certificates; resume it as it was begun"
        )
    name = journal.run if directory is None else directory.run_of(journal.run)
    control = listening.control

    def begin(hosts: LinkedHosts) -> Listener:
        return started(expected, listening, journal, hosts, OtherTerms(out, terms_of(scenario), lambda: hosts.round))

    def due(fewest: int) -> None:
        if hosts.listener is not None:
            second = bool(helpers_of(scenario))
            wait_for_somebody(hosts.listener, len(clients), listening.wait, second)
            wait_for_enough(hosts.listener, clients, fewest, listening.wait)
            wait_for_somebody(hosts.listener, len(clients), listening.wait, second)
            wait_for_helpers(scenario, hosts.listener, listening.wait)

    attempts = Attempts()

    def more(count: int, why: str) -> None:
        if hosts.listener is not None:
            attempts.failed(why)
            wait_for_more(hosts.listener, count, listening.wait)
            attempts.pause(hosts.listener)

    hosts = LinkedHosts(journal, clients, name, begin, due, more, control.halt, listening.scores)
    watched = Watched(hosts, len(clients), scenario.rounds, journal.life, last_line(out) if resumed else {}, standing)
    control.vitals = watched.vitals
    over = done = in_vain = False
    said = ""
    presence = Presence(out, clients)
    try:
        for played in run(scenario, out, data, (out / "scenario.json").exists(), hosts=hosts, dealt=dealt):
            watched.played = played
            if (listener := hosts.listener) is None:
                presence.replayed(hosts.linked.absent)
            else:
                presence.round(
                    played.round - 1, listener.present(), listener.barred(), hosts.linked.absent, hosts.unanswered or {}
                )
            yield played
        over = done = True
        if resumed and hosts.listener is not None:  # who waits for the coordinator is to be told that it is over
            with suppress(Halted):
                coming = len(clients) - len(hosts.listener.barred())
                hosts.listener.wait_for(coming, min(listening.wait, LONGEST_PAUSE + 5.0), helpers_of(scenario))
    except OSError:
        raise  # a full disk, for example: clients wait for the next life
    except Halted:
        over = control.leave
        done = over and not journal.began
        raise
    except BaseException as error:
        if isinstance(error, NothingLearned) and journal.began and error.helper:
            again = "clients wait: give the same command again when it does, and the run goes on"
            raise ConnectionError(f"{error.words}; {again}") from None
        over, said = True, error.words if isinstance(error, NothingLearned) else ""
        done = in_vain = not journal.began
        if in_vain and isinstance(error, ProtocolError):
            left = "" if hosts.listener is None else who_left(hosts.listener)
            raise ValueError(f"the run did not begin: {error.reason}{left}; {BEGIN_ANEW}") from None
        raise
    finally:
        watched.running = False
        if (listener := hosts.listener) is not None:
            listener.stop(over, IN_VAIN if in_vain else "", said)
            _write_link(out, listener, hosts, journal.life)
        if done:
            journal.over()
        journal.close()


def _expected(scenario: Scenario[Any], data: Path | None, dealt: Apportioned) -> Expected:
    """What is to be known to listen. The parties that it is of are gone when this returns: the run makes its own, of the same
    data, and both would hold three copies of the model until it ends.
    """
    found = Expected.of(Parties(scenario, data, dealt, here=()))
    gc.collect()  # parties and what they made hold one another
    return found


def _check_listed(directory: Directory | None) -> None:
    """Raise Refused without certificates, or where the directory lists no second server or dealer."""
    if directory is None:
        raise Refused("two servers are two by their certificates: TwoServer is played with --keys alone")
    if away := [name_of(party) for party in HELPERS if party not in directory.entries]:
        raise Refused(f"the directory lists no {' and no '.join(away)}: make keys with `cloister keys init --two-servers`")


def last_line(out: Path) -> Mapping[str, Any]:
    """Of metrics.jsonl, of an earlier life; empty where no round was over, or the machine lost some of it."""
    with suppress(OSError, ValueError, IndexError):
        return RunFolder(out).read("metrics.jsonl")[-1]
    return {}


def _write_link(out: Path, listener: Listener, hosts: LinkedHosts, life: int) -> None:
    """What the links carried over all lives of the coordinator, who took no model, and who is revoked at its end."""
    if (out / "scenario.json").exists():
        linked = hosts.linked
        absent = {str(client): times for client, times in sorted(linked.absent.items())}
        found = {"unanswered": absent, "late": linked.late, "life": life}
        if linked.without is not None:
            found["without_model"] = [i for i in linked.without if i not in hosts.perhaps]
            found |= {"perhaps_without_model": list(hosts.perhaps)} if hosts.perhaps else {}
        if barred := [client for client in listener.barred() if client >= 0]:
            found["sent_away"] = barred
        before: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # a life that was killed counted nothing
            before = json.loads((out / "link.json").read_text()) if life > 1 else {}
        counted = {name: count + int(before.get(name, 0)) for name, count in listener.counted.items()}
        RunFolder(out).write_json("link.json", counted | found)
