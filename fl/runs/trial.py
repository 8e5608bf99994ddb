"""One client's training and scoring, tried before a run: what would end either is said where its owner looks."""

from dataclasses import replace

import torch

from ...crypto.prg import KEY_BYTES
from ..clients.training import Job
from ..models.vector import to_vector
from .evaluation import ScoringJob, accuracies
from .objective_check import loss_doubts
from .parties import Parties


def tried(parties: Parties, client: int) -> list[str]:
    """What is doubtful of its loss. Raises what its training raises, of one pass over its first batch, and what its metrics do of
    its test records; given to nobody: noise of DP-SGD is drawn from a secret that all know, and nothing is spent.
    """
    scenario = parties.scenario
    training = replace(scenario.algorithm.local(scenario.training), epochs=1)
    examples = parties.population.clients[client].train
    first = examples.take(torch.arange(min(training.batch or len(examples), len(examples))))
    job = Job(client, to_vector(parties.module), first, 0, secret=bytes(KEY_BYTES) if training.privacy else b"")
    for _ in parties.execution(parties.module, [job], training, 0):
        pass
    if len(test := parties.population.clients[client].test):
        accuracies(parties.module, [ScoringJob(client, job.start, test)], training.loss, parties.measures)
    return loss_doubts(training, parties.module, first, parties.population.classes)
