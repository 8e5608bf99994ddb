"""An audit: the runs are played, attacks are tried, and what they found is told as plain values."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..fl.runs.before_grids import check_records
from ..fl.runs.doubted import doubted
from ..fl.runs.origin import checksum, commit
from ..fl.runs.run_folder import machine, versions
from ..fl.runs.scenario import Scenario, described
from ..fl.runs.simulation import Simulation
from ..grids.ahead import Pace, begun, noted
from ..progress import shown
from ..protocol.core.session import DEALER, SECOND_SERVER, SERVER
from ..protocol.two_servers.protection import TwoServer
from ..protocol.uploaded.plain import Plain
from ..reporting.run_data import time_words
from ..threat_models.audit.experiment import Budget, Experiment
from ..threat_models.audit.experiments import EXPERIMENTS, observers_of
from ..threat_models.audit.kept import NOTHING_KEPT, kept_in
from ..threat_models.audit.observer import NAMES, Observer, named, parts, with_names
from ..threat_models.audit.recorded import Recorded
from ..threat_models.audit.stage import Stage, stages
from ..threat_models.audit.table import Row, asked_of, rows
from ..threat_models.audit.uncovered import unclaimed
from ..threat_models.claims import CLAIMS
from ..threat_models.claims.runs import absent_in_words, in_words
from .fewest import too_few
from .folder import PLAYING
from .losses import check_of_labels


def _ahead(scenario: Scenario, budget: Budget, seeds: Sequence[int], recorded: Mapping[int, Recorded]) -> str:
    """What an audit is going to do, in words."""
    many = "s" * (len(seeds) != 1)
    rounds = f"{scenario.rounds} round{'s' * (scenario.rounds != 1)}"
    runs = f"{len(seeds)} run{many} of {rounds} (seed{many} {', '.join(map(str, seeds))})"
    runs += f", {len(recorded)} of them recorded before" if recorded else ""
    beside = "each beside the same in clear and others of the attacker's own"
    return f"{scenario.name}: {runs}, {beside}; then attacks, with the budget {budget.name}"


def _rounds(scenario: Scenario, seeds: Sequence[int], recorded: Mapping[int, Recorded]) -> int:
    """Of all runs that an audit plays, at most: of each seed its own and the attacker's, and both in clear."""
    kinds = 2 if isinstance(scenario.protection, Plain) and scenario.training.privacy is None else 4
    return scenario.rounds * (kinds * len(seeds) - len(recorded))


def observers_asked(scenario: Scenario, data: Path | None, against: Sequence[Observer | str]) -> tuple[Observer, ...]:
    """Who is named. Raises ValueError of one line for parties that the scenario has not, and for clients after whom none is
    honest.
    """
    if not against:
        return ()
    with_clients = any(one.clients if isinstance(one, Observer) else parts(one)[1] for one in against)
    population = Simulation(scenario, data).population if with_clients else None
    called = {} if population is None else population.names
    asked = [one if isinstance(one, Observer) else named(one, called) for one in against]
    for observer in asked:
        absent = observer.servers - {SERVER} - ({SECOND_SERVER, DEALER} if isinstance(scenario.protection, TwoServer) else set())
        if absent:
            used = type(scenario.protection).__name__
            raise ValueError(f"{observer.name}: under {used} there is no {NAMES[min(absent)]}; TwoServer() has one")
        if population is None:
            continue
        known = population.clients.keys()
        if unknown := sorted(observer.clients - known):
            raise ValueError(f"{observer.name}: there is no client {unknown[0]}; there are {min(known)} to {max(known)}")
        if observer.clients >= known:
            raise ValueError(f"{observer.name}: that is every client, and nobody is left to find anything out about")
    return tuple(dict.fromkeys(asked))


def audited(
    scenario: Scenario,
    budget: Budget,
    seeds: Sequence[int],
    data: Path | None,
    quiet: bool = False,
    against: Sequence[Observer | str] = (),
    recorded: Mapping[int, Recorded] = MappingProxyType({}),
    further: Sequence[Experiment] = (),
    experiments: Sequence[Experiment] = (),
    always: bool = True,
    into: Path | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """The whole audit, plain JSON values.

    quiet: shows no progress; always: shows it where no terminal is, too. into: the folder that the results will be in, which is
    said with what is going to be played; what is done is kept in it, by which an audit that was stopped goes on (resume); None to
    say and keep nothing.

    against: whose views are attacked, observers or what `named` reads; empty for all of `observers_of`. recorded: runs that are
    there already, by seed, which must be among the seeds. further: experiments beside ours, an `Attack` of one's own for
    instance, or `PropertyInference` of a property of one's own under another name; one that fails is a row that says so.
    experiments: in the place of all of
    ours; empty for `EXPERIMENTS`. Raises ValueError for what cannot be audited, before anything is played.
    """
    check_records(scenario)
    tried = (*(experiments or EXPERIMENTS), *further)
    if twice := [e.name for k, e in enumerate(tried) if e.name in {other.name for other in tried[:k]}]:
        raise ValueError(f"two experiments are called {twice[0]!r}; give yours another name")
    first_of_all = None
    if set(seeds) - set(recorded) or not recorded:
        first_of_all = Simulation(scenario, data)  # what does not fit is said before what is going to be played
        for words in first_of_all.of_data:
            doubted(words)
    asked = observers_asked(scenario, data, against)
    of_runs = first_of_all.population if first_of_all is not None else next(iter(recorded.values())).truth.population
    check_of_labels(scenario.training, of_runs)
    started = time.perf_counter()
    seeds = seeds or tuple(range(scenario.seed, scenario.seed + budget.seeds))
    if missing := sorted(set(recorded) - set(seeds)):
        raise ValueError(f"the recorded run is of seed {missing[0]}; name it among --seeds (seeds= in Python), or leave them out")
    if into is not None and always:
        begun(_ahead(scenario, budget, seeds, recorded), into)
    kept = NOTHING_KEPT
    if into is not None:
        of: dict[str, Any] = {"scenario": described(scenario), "set of data": checksum(of_runs), "budget": asdict(budget)}
        of |= {"recorded run": [one.public.run.hex() for one in recorded.values()], "version of Cloister": versions()["cloister"]}
        beside = {"against": [one if isinstance(one, str) else one.name for one in against], "attack": [e.name for e in further]}
        kept = kept_in(into / PLAYING, of, resume, beside)
        for option, names in () if quiet else kept.left_out.items():
            noted(f"it was begun with --{option} {f' --{option} '.join(names)}, and goes on without: name what is to be in it")
    clients = len(of_runs.clients)
    if not quiet and (words := too_few(CLAIMS, scenario.protection, scenario.algorithm, clients, budget.victims, len(seeds))):
        noted(words)
    played: list[Stage] = []
    measured: list[Row] = []
    told = always and not quiet

    def say(words: str) -> None:
        if words and told:
            noted(words)

    with shown(sys.stderr, always=always, quiet=quiet) as tell:
        first_runs = Pace("rounds of its runs", _rounds(scenario, seeds, recorded), most=True)
        for one in stages(scenario, seeds, data, recorded, kept, lambda: say(first_runs.over())):
            if isinstance(one, Stage):
                played.append(one)
            else:
                tell("playing", len(played), len(seeds), f"seed {one[0]}: {one[1]}")
        first = played[0].audited
        called = first.truth.population.names
        whose = asked or observers_of(scenario.protection, first.public.clients, first.sums_alone.sums)
        observers = tuple(with_names(observer, called) for observer in whose)
        tell("playing", len(seeds), len(seeds), "")
        tries = sum(len(asked_of(o, tried, [e.name for e in further])) for o in observers)
        took = time_words(time.perf_counter() - started)
        say(f"played in {took}; now {tries} tries: {len(tried)} attacks on what each of {len(observers)} parties saw")
        pace = Pace("tries", tries, due=len(tried))
        for row in rows(played, observers, tried, CLAIMS, budget, [e.name for e in further], kept):
            measured.append(row)
            tell("attacking", len(measured), tries, f"{row.experiment}, {row.observer}")
            say(pace.over())
    names = [observer.name for observer in observers]
    public, sums = first.public, [stage.audited.sums for stage in played]
    return {
        "name": scenario.name,
        "scenario": described(scenario),
        "protection": repr(scenario.protection),
        "against": names if against else [],
        "names": {str(i): name for i, name in sorted(called.items())},
        "run": in_words(public.protection, public.algorithm) + absent_in_words(sums),
        "unclaimed": [asdict(one) for one in unclaimed(CLAIMS, public.protection, public.algorithm, sums)],
        "ran_out": {str(stage.seed): dict(stage.audited.ran_out) for stage in played if stage.audited.ran_out},
        "budget": asdict(budget),
        "seeds": list(seeds),
        "recorded": sorted(recorded),
        "commit": commit(),
        "data_sha256": {str(stage.seed): checksum(stage.audited.truth.population) for stage in played},
        "privacy": {str(stage.seed): dict(stage.audited.privacy) for stage in played if stage.audited.privacy},
        "seconds": time.perf_counter() - started,
        "rows": [row.as_dict() for row in measured],
        "meters": [{"seed": stage.seed, "rounds": [[t, of] for t, of in stage.audited.meters]} for stage in played],
        "machine": machine(),
        "versions": versions(),
    }
