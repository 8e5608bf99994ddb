"""Families of attacks as an `Evaluation` takes them: by name, each by as many members as the strength says.

An attack at its paper's one setting says little of a defence: another strength, another perturbation or another moment may be
what breaks it. A suite has an attack at several. Members are drawn from the run's seed; they know what an attack needs, and the
honest updates of the round where it needs more than their own, which is the usual and the worst case.

| suite | attacks |
| --- | --- |
| `untargeted` | against accuracy, rule unseen: minus gradient, ALIE, IPM, Min-Max, Min-Sum, Fang, mimic, label flips, noise |
| `insiders` | against accuracy, searched against the defence's own rule: optimal ALIE and IPM, STAT-OPT, DYN-OPT |
| `backdoors` | BadNets and successors, with and without adaptation; until two thirds of the run, so that it shows what lasts |
| `schedules` | against defences that group clients or remember them: sleepers, pulses, late comers, hiders |
| `choices` | forged votes, for defences that ask clients which model serves them |
| `embeddings` | forged embeddings, for EMD-CFL |
| `strongest` | the strongest of `untargeted`, `insiders` and `backdoors`: what `cloister evaluate` plays of a scenario |
"""

from .backdoors import backdoors
from .chosen import strongest
from .clusters import choices, embeddings, schedules
from .untargeted import insiders, untargeted
from .usual import usual_evaluation

__all__ = ["backdoors", "choices", "embeddings", "insiders", "schedules", "strongest", "untargeted", "usual_evaluation"]
