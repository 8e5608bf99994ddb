"""The truth of a recorded run, in arrays of its own: what no party sees whole, for whoever scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...fl.data.population import Client, Examples, Population
from ...protocol.view.answers import Vector, Work
from .recording_arrays import Arrays, ExamplesLine, Kept, examples_in, keep_examples
from .truth import Truth


@dataclass(frozen=True, slots=True)
class UpdateLine:
    """A client's update."""

    round: int
    kind: Work
    client: int
    vector: str


@dataclass(frozen=True, slots=True)
class TruthLine:
    """All clients' examples, their planted groups, and their updates, by the names of arrays. said: as in `Truth`.
    names: of clients that have one.
    """

    train: Mapping[int, ExamplesLine]
    test: Mapping[int, ExamplesLine]
    groups: Mapping[int, int]
    classes: int
    shape: tuple[int, ...]
    outside: ExamplesLine
    updates: tuple[UpdateLine, ...]
    compared: Mapping[int, ExamplesLine]
    said: tuple[tuple[int, Work, int, int], ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)


def keep_truth(kept: Kept, truth: Truth) -> TruthLine:
    """Keep what is true."""
    population = truth.population
    clients = population.clients
    return TruthLine(
        {i: keep_examples(kept, c.train) for i, c in clients.items()},
        {i: keep_examples(kept, c.test) for i, c in clients.items()},
        {int(i): int(g) for i, g in population.groups.items()},
        population.classes,
        tuple(map(int, population.shape)),
        keep_examples(kept, truth.outside),
        tuple(UpdateLine(t, kind, i, kept.add(v)) for (t, kind, i), v in truth.updates.items()),
        {int(i): keep_examples(kept, of) for i, of in truth.compared.items()},
        tuple((*key, int(n)) for key, n in truth.said.items()),
        {int(i): name for i, name in population.names.items()},
    )


def truth_in(line: TruthLine, arrays: Arrays) -> Truth:
    """What was kept, without starts, which are kept of the run. Raises ValueError for what is none."""
    if line.train.keys() != line.test.keys():
        raise ValueError("not every client has examples for training and for testing")
    made: dict[ExamplesLine, Examples] = {}
    for of in (*line.train.values(), *line.test.values(), *line.compared.values(), line.outside):
        if of not in made:
            made[of] = examples_in(arrays, of)
    clients = {i: Client(i, made[of], made[line.test[i]]) for i, of in line.train.items()}
    updates: dict[tuple[int, Work, int], Vector] = {(u.round, u.kind, u.client): arrays.vector(u.vector) for u in line.updates}
    compared = {i: made[of] for i, of in line.compared.items()}
    if not line.names.keys() <= clients.keys():
        raise ValueError("it names clients that it has no examples of")
    population = Population(clients, line.groups, line.classes, line.shape, line.names)
    said: dict[tuple[int, Work, int], int] = {(t, kind, i): n for t, kind, i, n in line.said}
    if not said.keys() <= updates.keys() or min(said.values(), default=1) < 1:
        raise ValueError("a client says how many samples it has of an update that is not there, or none")
    return Truth(population, updates, made[line.outside], {}, compared, said=said)
