"""A scenario's data as its partition deals them to clients, and what each holds out: read once, for whoever takes part."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from ..data.agreed import made_up, schema_of
from ..data.identifiers import numbered_rows
from ..data.natural import dealt_anew
from ..data.own import Schema
from ..data.population import Client, Population
from ..data.rare import rare_labels
from ..fields_at_fault import about
from ..functions import Unfit, brief, called, misfit
from .scenario import Scenario


def seed_of(seed: int, *names: int | str) -> int:
    """A 63-bit seed for one purpose: a hash of the run's seed and the purpose's names. Seeds of simulations, not secrets."""
    digest = hashlib.sha256(repr((seed, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def held_out(client: Client, share: float, seed: int) -> tuple[Client, Client]:
    """The client without the share of its training data held out for validation, and a client with only that share.

    Drawn by position, whatever the records are.
    """
    count = round(share * len(client.train))
    if not 0 < count < len(client.train):
        raise ValueError(f"client {client.id} has {len(client.train)} examples: too few to hold out a share of {share}")
    order = np.random.default_rng(seed).permutation(len(client.train))
    index = torch.from_numpy(order)
    return replace(client, train=client.train.take(index[count:])), replace(client, train=client.train.take(index[:count]))


@dataclass(frozen=True, slots=True)
class Apportioned:
    """A scenario's data, and who has which. validation: what each client holds out. of_data: what is doubtful about them. schema:
    what inputs and outputs are called, where data say so.
    """

    population: Population = field(repr=False)
    validation: Mapping[int, Client] = field(repr=False)
    of_data: list[str]
    schema: Schema | None = None

    @classmethod
    def of(cls, scenario: Scenario, folder: Path | None) -> "Apportioned":
        """Read from a folder of data sets."""
        seed = scenario.seed
        with about("data"):
            source = scenario.data(folder)
            of_data = [*rare_labels(source), *numbered_rows(source), *dealt_anew(source, scenario.partition)]
        with about("partition"):
            if wrong := misfit(scenario.partition, ["source", "rng"]):
                raise Unfit(f"partition, {called(scenario.partition)}, does not fit: {wrong}")
            population = scenario.partition(source, np.random.default_rng(seed_of(seed, "partition")))
            if not isinstance(population, Population):
                said = f"returned {brief(population)}, where a Population is taken (cloister.data.Population)"
                raise Unfit(f"{called(scenario.partition)} {said}")
        validation: Mapping[int, Client] = {}
        if scenario.validation > 0:
            share = 0.5 if made_up(scenario.data) else scenario.validation  # of a few rows, whose number says nothing
            parts = {i: held_out(c, share, seed_of(seed, "validation", i)) for i, c in population.clients.items()}
            population = replace(population, clients={i: kept for i, (kept, _) in parts.items()})
            validation = {i: out for i, (_, out) in parts.items()}
        return cls(population, validation, of_data, schema_of(scenario.data, source))


def population_of(scenario: Scenario, data: str | Path | None = None) -> Population:
    """All clients of a scenario, with what each trains on and what its models are scored by, as its runs deal it by its seed.

    data: folder of data sets. `.clients[i].test` has tensors x and y, by which a run's accuracy can be computed again.
    """
    return Apportioned.of(scenario, None if data is None else Path(data)).population
