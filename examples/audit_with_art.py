"""A published tool's attack in an audit: membership inference of the Adversarial Robustness Toolbox on what each party saw.

    pip install adversarial-robustness-toolbox
    python examples/audit_with_art.py
    cloister audit examples/audit_with_art.py --attack examples/audit_with_art.py     the same beside all of ours, with a report

`membership` is a function of what the attacker has: the recorded view and a run of its own. It makes the model that a client
sent, as far as the observer can tell, and lets ART's `MembershipInferenceBlackBox`, taught on the clients of its own run, judge
the records in question. Any other tool is put in likewise; see `Attack` for what it may seek.
"""

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch

from cloister.auditing.audited import audited
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.membership import compared, start_of
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threats import Attack, CorruptView, Evidence

scenario = Scenario(
    name="few records, many epochs",
    data=Digits(),
    partition=Iid(clients=30),
    model=Mlp(hidden=(64,)),
    training=Training(epochs=20, batch=8, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(corrupt=2),
    rounds=2,
)
LEARNED_ON = 8
"""Clients of the attacker's own run."""


def module_of(evidence: Evidence, view: CorruptView, client: int) -> torch.nn.Module:
    """The model that this client made of the last round whose start the observer knows, as far as it can tell."""
    found = evidence.estimated(view)
    known = ((t, start_of(view, t, i), e.vector) for (t, kind, i), e in found.items() if (kind, i) == ("update", client))
    made = {t: start + update for t, start, update in known if start is not None}
    module = deepcopy(view.public.module).cpu()
    if made:
        load_vector(module, made[max(made)].astype(np.float32))
    return module.eval()


def classifier(module: torch.nn.Module, records: Examples, classes: int) -> Any:
    """The module as ART takes it."""
    from art.estimators.classification import PyTorchClassifier

    return PyTorchClassifier(module, torch.nn.CrossEntropyLoss(), tuple(records.x.shape[1:]), classes)


@cache
def taught(evidence: Evidence) -> Any:
    """ART's attack, taught on clients of the attacker's own run."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox

    public, rng = evidence.view.public, np.random.default_rng(0)
    seen: list[tuple[Any, ...]] = []
    for client in evidence.known.population.clients:
        if client in evidence.shadow.observer.clients or len(seen) == LEARNED_ON:
            continue
        records, count = compared(evidence.known, client, 60, rng)
        predicted = classifier(module_of(evidence, evidence.shadow, client), records, public.classes).predict(records.x.numpy())
        labels = records.y.numpy()
        seen.append((predicted[:count], labels[:count], predicted[count:], labels[count:]))
    inside, of_inside, outside, of_outside = (np.concatenate(part) for part in zip(*seen, strict=True))
    first = next(iter(evidence.known.population.clients.values())).train
    attack = MembershipInferenceBlackBox(classifier(public.module, first, public.classes), attack_model_type="gb")
    attack.fit(None, of_inside, None, of_outside, pred=inside, test_pred=outside)
    return attack


def membership(evidence: Evidence, client: int, records: Any, rng: np.random.Generator) -> Any:
    """The probability of each record to be one of the client's."""
    view = evidence.view
    predicted = classifier(module_of(evidence, view, client), records, view.public.classes).predict(records.x.numpy())
    return taught(evidence).infer(None, records.y.numpy(), pred=predicted, probabilities=True).ravel()


attack = Attack(
    "membership by ART", membership, "records", "public examples, and a run of its own", "Shokri et al. 2017, as in ART"
)


def main() -> None:
    found = audited(scenario, QUICK, (0,), None, quiet=True, against=(SERVER_ALONE, server_and(0)), further=(attack,))
    for row in found["rows"]:
        if row["experiment"] in ("membership", attack.name) and row["leakage"]:
            areas = {name: round(told["area"]["value"], 3) for name, told in row["told"].items()}
            print(f"{row['observer']:20} {row['experiment']:20} AUC {areas}")


if __name__ == "__main__":
    main()
