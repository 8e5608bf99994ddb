"""The ServerApp: the coordinator of a scenario's run. Flower's Grid carries its words, in one message a client a stage."""

import logging
import os
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..crypto.entropy import OsEntropy
from ..protocol.core.errors import Refused
from ..protocol.links.batched import PAUSE, Batched
from ..protocol.parts.clients import Clients
from ..protocol.work.together import Together
from .content import ACTION, bytes_in, content_of
from .who import WHO, nodes_of

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    from ..fl.runs.experiment import Round
    from ..fl.runs.scenario import Scenario
    from ..protocol.view.answers import Vector
    from ..protocol.work.linked import LinkedClient
    from ..protocol.work.maker import Maker

WAIT, PATIENCE = 300.0, 600.0
"""Seconds: until all clients are there; without anybody's answer, until who owes one counts as absent."""
OTHER = "give another folder as out in the run's configuration (--run-config 'out=\"FOLDER\"'), or none"
"""What may be done about a run folder that is not free."""
log = logging.getLogger("cloister.flower")


class OverGrid:
    """What carries messages to nodes: a `Carrier` of links/batched.py. nodes: Flower's, by client."""

    def __init__(self, grid: "Grid", nodes: Mapping[int, int]) -> None:
        self._grid, self._nodes = grid, nodes

    def send(self, client: int, data: bytes, /) -> Hashable | None:
        """See `Carrier`."""
        from flwr.app import Message

        message = Message(content_of(data), self._nodes[client], f"query.{ACTION}")
        names = list(self._grid.push_messages([message]))
        return names[0] if names and names[0] else None

    def replies(self, names: Collection[Hashable], /) -> Mapping[Hashable, bytes | None]:
        """See `Carrier`."""
        found: dict[Hashable, bytes | None] = {}
        for reply in self._grid.pull_messages([str(name) for name in names]):
            found[reply.metadata.reply_to_message_id] = _data(reply)
        return {name: data for name, data in found.items() if name in names}


def _data(reply: Any) -> bytes | None:
    """What an answer holds; None of an app that failed."""
    if reply.has_error():
        log.warning("a node's app failed", extra={"node": reply.metadata.src_node_id, "why": f"{reply.error.reason!s:.500}"})
        return None
    try:
        return bytes_in(reply.content)
    except Refused as error:
        log.warning("refused", extra={"node": reply.metadata.src_node_id, "why": str(error)})
        return None


def nodes_there(grid: "Grid", clients: Sequence[int], wait: float) -> dict[int, int]:
    """The nodes of all these clients, by client. Raises ValueError for who is missing after `wait` seconds, Refused for two nodes
    that are one client.
    """
    until = time.monotonic() + wait
    waiting: dict[Hashable, int] = {}
    answered: dict[int, bytes | None] = {}
    while True:
        asked = {*waiting.values(), *answered}
        for node in set(grid.get_node_ids()) - asked:
            carrier = OverGrid(grid, {node: node})
            if (name := carrier.send(node, WHO)) is not None:
                waiting[name] = node
        for name, data in OverGrid(grid, {}).replies(tuple(waiting)).items() if waiting else ():
            answered[waiting.pop(name)] = data
        found = nodes_of(answered, clients)
        if len(found) == len(clients):
            return found
        if time.monotonic() > until:
            missing = sorted(set(clients) - set(found))
            raise ValueError(f"after {wait:g} s clients {missing} are not there, and the run begins with all of them")
        time.sleep(PAUSE)


class Hosts:
    """Where clients are: at Flower's nodes. run: the run's name. greeting: what each client is told first."""

    def __init__(
        self, grid: "Grid", clients: tuple[int, ...], run: bytes, greeting: Callable[[int], bytes], wait: float, patience: float
    ) -> None:
        self.run, self.entropy, self.scores, self.gathered = run, OsEntropy(), False, None
        self.link: Batched | None = None
        self.linked: Together | None = None
        self._grid, self._clients, self._greeting, self._wait, self._patience = grid, clients, greeting, wait, patience

    def __call__(self, maker: "Maker") -> "Mapping[int, LinkedClient]":
        """All clients, when they are there. Raises as `nodes_there`."""
        nodes = nodes_there(self._grid, self._clients, self._wait)
        self.link = Batched(OverGrid(self._grid, nodes), self._greeting, self._patience)
        self.linked = Together(self.link, self._clients)
        return self.linked(maker)

    def helpers(self) -> Mapping[int, Any]:
        """None: such a run has one server."""
        return {}

    def missed(self) -> Mapping[int, str]:
        """Nobody of whom a round's record says it: such a run has no second server."""
        return {}

    def begin(self, round: int, view: Any) -> None:
        """Such a run has no journal; it begins with all clients. Raises RuntimeError where one is not ready for it."""
        missing = sorted(set(self._clients) - view.harness.part(Clients).seated)
        if round == 0 and missing:
            raise RuntimeError(f"clients {missing} are not ready for the run")

    def admit(self, view: Any) -> None:
        """Nobody: who was not there when the run began waits for the next."""

    def finished(self, models: "Mapping[int, Sequence[Vector | str]]") -> None:
        """The run is over: hand each client its model, or say which of those that it holds it is."""
        if self.linked is not None:
            self.linked.finish(models)

    @property
    def counted(self) -> dict[str, Any]:
        """What link.json says."""
        if self.link is None or self.linked is None:
            return {}
        counted = {name: getattr(self.link, name) for name in ("stages", "messages", "bytes_out", "bytes_in")}
        absent = {str(client): times for client, times in sorted(self.linked.absent.items())}
        return counted | {"unanswered": absent, "late": self.linked.late}


def play(
    scenario: "Scenario[Any]",
    out: Path,
    grid: "Grid",
    data: Path | None = None,
    *,
    wait: float = WAIT,
    patience: float = PATIENCE,
) -> "Iterator[Round]":
    """Play the scenario's rounds with clients at Flower's nodes, yielding after each; the run folder is complete when it ends.

    Raises Refused for what cannot be played so, and where a client does not agree to it; ValueError where clients are missing.
    """
    from ..fl.runs.dealt import Apportioned
    from ..fl.runs.experiment import run
    from ..fl.runs.listening import greeting_of, helpers_of
    from ..fl.runs.parties import Parties
    from ..fl.runs.run_folder import RunFolder
    from ..fl.runs.served_journal import RUN_BYTES
    from ..fl.runs.serving import check_served

    check_served(scenario)
    if helpers_of(scenario):
        raise Refused("a Flower federation has no second server: play TwoServer with cloister serve, second, dealer and join")
    _check_free(out)
    dealt = Apportioned.of(scenario, data)
    parties, name = Parties(scenario, data, dealt, here=()), os.urandom(RUN_BYTES)
    hosts = Hosts(grid, parties.setup.clients, name, greeting_of(parties, name), wait, patience)
    try:
        yield from run(scenario, out, data, hosts=hosts, dealt=dealt)
    except RuntimeError as error:
        refusals = {} if hosts.link is None else hosts.link.refusals
        if not refusals:
            raise
        whose = {why: [i for i in refusals if refusals[i] == why] for why in refusals.values()}
        raise Refused("; ".join(f"clients {sorted(of)} refuse: {why}" for why, of in whose.items())) from error
    finally:
        if out.is_dir():
            RunFolder(out).write_json("link.json", hosts.counted)


def _check_free(out: Path) -> None:
    """Raise ValueError where the folder is not free, in words of what a run's configuration may have."""
    from ..fl.runs.held_alone import ANOTHER, GO_ON, folder_may_be
    from ..fl.runs.run_folder import RunFolder

    try:
        folder_may_be(out, "run")
        RunFolder(out).check_free()
    except ValueError as error:
        why = str(error).replace(
            f"go on with it by {GO_ON}, or {ANOTHER}", f"none is gone on with in a Flower federation; {OTHER}"
        )
        raise ValueError(why.replace(ANOTHER, OTHER)) from None


def server_app(scenario: str | Path) -> "ServerApp":
    """The ServerApp of a scenario, FILE[:NAME]. The run's configuration may have `rounds`; `out`, the run folder; `data`, the
    folder of data sets; `wait` and `patience`, in seconds (see `play`).
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: "Grid", context: "Context") -> None:
        from ..reporting.report import write_report
        from ..scenario_file import load, with_settings

        given = context.run_config
        settings = [f"rounds={given['rounds']}"] if "rounds" in given else []
        found = with_settings(load(str(scenario)), settings)
        out = Path(str(given.get("out") or f"runs/{found.name.replace(' ', '-').replace('/', '-')}-flower-{context.run_id}"))
        data = Path(str(given["data"])) if given.get("data") else None
        limits = {name: float(given.get(name, default)) for name, default in (("wait", WAIT), ("patience", PATIENCE))}
        for done in play(found, out, grid, data, **limits):
            shown = "" if done.accuracy is None else f", accuracy {100 * done.accuracy:.1f} %"
            print(f"{done.round} of {done.rounds} rounds played: {done.clusters} clusters{shown}", flush=True)  # noqa: T201
        print(f"run folder: {out}; report: {write_report(out)}", flush=True)  # noqa: T201

    app.main()(main)
    return app
