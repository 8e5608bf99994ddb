"""Running a scenario: rounds, evaluation, logs and checkpoints. The end is in `summing_up`."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...protocol.core.errors import ProtocolError
from ...protocol.core.session import DEALER, SECOND_SERVER
from ..algorithms.algorithm import State
from ..clients.training import Executor
from ..data.agreed import made_up
from ..data.source import not_read
from ..emd.record import newly_compared
from ..meters.record import read as read_account
from ..own_code import has_own
from .alone import without_any_sum
from .begun_with import other_fields
from .checkpoint import Checkpoint, latest, read, write
from .codec import from_plain, to_plain
from .dealt import Apportioned
from .declines import declined
from .doubted import doubted
from .feasibility import check_feasible, doubts
from .held_alone import OTHERWISE_READ
from .hosts import Hosts
from .lost_round import NothingLearned, unanswered, why_withheld
from .not_summed import counted, not_summed, to_tell
from .objective_check import loss_doubts
from .origin import ORIGIN, origin, other_data
from .outweighing import outweighed
from .privacy import spent
from .round_lines import fault_lines, metrics, similarities, splits
from .rule_check import rule_doubts
from .run_folder import RunFolder
from .scenario import Scenario, described
from .simulation import Simulation
from .standstill import Standstill, standing_still
from .summing_up import Progress, finish, in_no_cluster
from .telling import MADE, Tell, telling
from .verdicts import numbers_of

ENDED = "ended.json"
"""Why a run ended before its last round, where it was not stopped."""
Make = Callable[[Scenario, Path | None], Simulation]
Engine = Callable[[Executor], Executor]
"""Of what trains clients, the same elsewhere (`fl/engines/`)."""


BEGUN_ANEW = (
    "the {of} has code of one's own: what that keeps from round to round, if anything, begins anew in round {round}, and then the"
    " run comes out otherwise than one that was not stopped"
)


@dataclass(frozen=True, slots=True)
class Round:
    """What a watcher is told after each round. accuracy: mean over clients, None in a round without evaluation, or where targets
    are numbers. numbers: of the round by name, as far as they are known: accuracy_mean, accuracy_worst, loss_mean, the mean over
    clients of each further metric, bytes_up, bytes_down, seconds, clusters, and epsilon of a unit ("epsilon client"). round: how
    many are over. stopped: clusters whose training stands still. unplaced: clients that are in no cluster. declined: who sat
    out, and why. not_summed: in how many rounds a client answered and was in no sum, of those of whom it is to be told. lost: why
    nobody learned anything in it; empty if somebody did. turned_down: of clusters that were not parted in it, why.
    """

    round: int
    rounds: int
    clusters: int
    accuracy: float | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    stopped: tuple[Standstill, ...] = ()
    unplaced: tuple[int, ...] = ()
    declined: tuple[tuple[int, str], ...] = ()
    not_summed: Mapping[int, int] = field(default_factory=dict)
    lost: str = ""
    turned_down: Mapping[str, str] = field(default_factory=dict)


def run(
    scenario: Scenario,
    out: Path,
    data: Path | None = None,
    resume: bool = False,
    make: Make = Simulation,
    hosts: Hosts | None = None,
    engine: Engine | None = None,
    given: Mapping[str, Any] | None = None,
    tell: Tell | None = None,
    dealt: Apportioned | None = None,
) -> Iterator[Round]:
    """Play the scenario's rounds, yielding after each; the run folder is complete when the iterator ends.

    A run folder is resumed from its newest checkpoint and ends with the models and metrics of an undisturbed run.
    make: makes the simulation of the scenario with this folder of data, for whoever listens to it. hosts: where the clients are,
    if not in this process; nobody listens then. engine: where clients' local training is computed, if not in this process; the
    run is the same, and may go on under another one. given: the scenario's file, source, name and settings, for the record.
    tell: hears what is done within a round (`telling`). dealt: with hosts, the data, where they were read already.
    Raises ValueError of one line for bad input, a damaged checkpoint, or a folder that does not fit or that another process
    plays in.
    """
    folder = RunFolder(out)
    plain = described(scenario)
    folder.hold()
    if resume:
        if differing := other_fields(folder.scenario(), plain):
            raise ValueError(f"the run was begun with another {', '.join(differing)}; resume it with the scenario it had")
    else:
        folder.check_free()
    if tell is not None:
        tell(MADE, 0, 0)
    simulation = make(scenario, data) if hosts is None else Simulation(scenario, data, hosts, dealt)
    samples = None if hosts is not None else simulation.samples
    check_feasible(scenario, len(simulation.population.clients), samples and samples.values())
    if engine is not None:
        simulation.execution = engine(simulation.execution)
    if tell is not None:
        telling(simulation, tell)
    found = doubts(scenario, len(simulation.population.clients), simulation.population.groups)
    found += simulation.of_data + rule_doubts(scenario, len(simulation.population.clients))
    if samples is not None:
        found += outweighed(scenario, samples, simulation.population.names)
        found += [words for words in (not_read(scenario.data, data), made_up(scenario.data)) if words]
        population, one = simulation.population, min(simulation.population.clients)
        found += loss_doubts(scenario.training, simulation.module, population.clients[one].train, population.classes)
    for doubt in found:
        doubted(doubt)
    if not resume:
        folder.begin(plain)
    made_of = origin(given, simulation.population if hosts is None else None)
    path = latest(folder.checkpoints) if folder.checkpoints.exists() else None
    if path is not None and other_data(out, made_of):
        raise ValueError(f"the data are not those that the run in {out} {OTHERWISE_READ}")
    folder.write_json(ORIGIN, made_of)
    progress = Progress()
    if path is not None:
        checkpoint = read(path)
        if checkpoint.round > scenario.rounds:
            raise ValueError(f"{out} has already played {checkpoint.round} rounds; resume it with at least as many")
        simulation.state = from_plain(type(simulation.state), checkpoint.state)
        simulation.view.harness.restore(checkpoint.snapshot, simulation.state.remembered)
        if simulation.corrupted is not None:
            simulation.corrupted.restore(checkpoint.adversary)
        folder.cut(checkpoint.lines)
        if simulation.weighing is not None:
            simulation.weighing.kept.restore(checkpoint.clients)
        simulation.watch.restore(checkpoint.account, *read_account(folder.read("account.jsonl")))
        extra = checkpoint.extra
        stopped, in_vain = dict(extra.get("stopped", [])), dict(extra.get("in vain", []))
        progress = Progress(extra["seconds"], extra["before"], stopped, in_vain)
        simulation.went = dict(checkpoint.extra.get("went by", []))
        if hosts is None:  # else somebody has looked after who was silent
            simulation.in_vain = checkpoint.extra.get("in_vain", 0)
        simulation.spending.restore(checkpoint.extra.get("spent on training", []))
        if checkpoint.round and (own := [of for of in ("algorithm", "adversary") if has_own(getattr(scenario, of))]):
            doubted(BEGUN_ANEW.format(of=" and ".join(own), round=checkpoint.round))
    else:
        folder.cut({})
    if resume:
        folder.write_json("scenario.json", plain)  # rounds may be more than they were
    folder.remove(ENDED)
    try:
        if hosts is not None:
            hosts.begin(simulation.state.round, simulation.view)
        while simulation.state.round < scenario.rounds:
            yield _play(simulation, folder, progress, hosts)
        finish(simulation, folder, progress)
    except (NothingLearned, ProtocolError) as error:  # what going on would not mend: the folder says so, too
        folder.write_json(ENDED, {"why": str(error)})
        raise
    if hosts is not None:
        hosts.finished(simulation.finals)


def _play(simulation: Simulation, folder: RunFolder, progress: Progress, hosts: Hosts | None) -> Round:
    started = time.perf_counter()
    earlier = simulation.state
    scenario, t = simulation.scenario, simulation.state.round
    record = simulation.view.record
    before, logged, known, refused = record.traffic, len(record.log), len(record.faults), len(record.below_floor)
    asked, opened = len(record.asked), len(record.opened)
    try:
        if hosts is not None:
            hosts.admit(simulation.view)
        simulation.step()
    finally:  # also when the round came to nothing, and the faults say why
        noted = len(record.faults)
        folder.append("faults.jsonl", fault_lines(t, record.faults[known:noted]))
    state: State = simulation.state
    last = state.round == scenario.rounds
    evaluated = simulation.evaluate() if last or state.round % scenario.evaluate_every == 0 else None
    folder.append("faults.jsonl", fault_lines(t, record.faults[noted:]))  # of scores that are none
    took = time.perf_counter() - started
    progress.seconds += took
    now = record.traffic
    traffic = {"bytes_up": now.bytes_up - before.bytes_up, "bytes_down": now.bytes_down - before.bytes_down}
    why = partial(why_withheld, faults=record.faults[known:])
    below = [
        {"round": t, "cluster": b.name, "members": list(b.clients), "why": why(b)} | ({"hidden": True} if b.shut else {})
        for b in record.below_floor[refused:]
    ] + without_any_sum(earlier.clusters, state.clusters, t)
    missed = {} if hosts is None else hosts.missed()
    summed = {i for entry in record.log[logged:] if entry.what == "sums" for i in entry.about}
    all_summed = all(not summed.isdisjoint(cluster.members) for cluster in earlier.clusters.values())
    servers = (SECOND_SERVER,) if summed and all_summed else (SECOND_SERVER, DEALER)  # without the dealer there may be sums
    silent = unanswered(record.faults[known:], servers, missed)
    stopped = standing_still(
        earlier.clusters,
        state.clusters,
        progress.stopped,
        t,
        refused=record.below_floor[refused:],
        opened=[of.cluster for of in record.opened[opened:]],
        asked=record.asked[asked:],
        measured=state.measured,
        silent=silent,
        ended=simulation.ended,
        why=why,
    )
    progress.stopped = {of.cluster: of.since for of in stopped if not of.gone}
    in_vain = set[int]()
    if hosts is not None:
        in_vain = not_summed(record.asked[asked:], record.opened[opened:], record.faults[known:], missed)
    progress.in_vain = counted(progress.in_vain, in_vain, record.opened[opened:])
    privacy = spent(simulation.ledgers)
    epsilon = {unit: of["epsilon_worst"] for unit, of in privacy.items()}
    line = metrics(simulation, t, evaluated) | traffic | {"below_floor": below, "seconds": took}
    still = [{"cluster": of.cluster, "since": of.since, "clients": list(of.clients), "why": of.words} for of in stopped]
    line |= {"stood_still": still} if still else {}
    line |= {"unanswered": silent} if silent else {}
    line |= {"epsilon": epsilon} if epsilon else {}
    beside = {unit: of["acknowledged"] for unit, of in privacy.items() if of["acknowledged"]}
    line |= {"epsilon_leaves_out": beside} if beside else {}
    if evaluated is not None and len(simulation.clusters) == 1:
        progress.before = line["accuracy_mean"]
    folder.append("metrics.jsonl", [line])
    folder.append("splits.jsonl", list(splits(simulation, t)))
    folder.append("similarities.jsonl", list(similarities(simulation, t, evaluated is not None)))
    folder.append("pairs.jsonl", list(newly_compared(earlier, state, t)))
    folder.append("disclosure.jsonl", [entry.as_dict() for entry in record.log[logged:]])
    folder.append("account.jsonl", simulation.accounted)
    if privacy:
        folder.write_json("privacy.json", privacy)
    extra: dict[str, Any] = {"seconds": progress.seconds, "before": progress.before, "in_vain": simulation.in_vain}
    extra |= {"went by": sorted(simulation.went.items())} if simulation.went else {}
    extra |= {"stopped": sorted(progress.stopped.items())} if progress.stopped else {}
    extra |= {"in vain": sorted(progress.in_vain.items())} if progress.in_vain else {}
    extra |= {"spent on training": spending} if (spending := simulation.spending.save()) else {}
    memory = simulation.corrupted.save() if simulation.corrupted is not None else {}
    snapshot, account = simulation.view.harness.save(), simulation.watch.save()
    clients = simulation.weighing.kept.save() if simulation.weighing is not None else {}
    kept = Checkpoint(state.round, to_plain(state), snapshot, folder.lengths(), extra, memory, account, clients)
    if hosts is not None:
        hosts.begin(state.round, simulation.view)
    write(folder.checkpoints, kept)
    count = len(simulation.clusters)
    apart = in_no_cluster(simulation)
    told = line.get("accuracy_mean"), numbers_of(line, count), stopped, apart, declined(record.faults[known:])
    vain, turned_down = to_tell(progress.in_vain, state.round), line.get("turned_down", {})
    return Round(state.round, scenario.rounds, count, *told, vain, simulation.lost, turned_down)
