"""What an outsider finds out of the models that a run ends with: which records a client trained on.

Masks and second servers hide what sums are made of, and nothing of the model that is handed out: only noise bounds that.
"""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch

from ...fl.clients.losses import losses
from ...fl.models.vector import dimension, load_vector
from .experiment import Anchor, Budget, Evidence, Finding, Values, victims_of
from .membership import comparable, compared, found_of
from .truth import Truth


@dataclass(frozen=True, slots=True)
class FinalModelMembership:
    """2 AUC - 1 of each victim, over records of its own and as many that nobody has: 0 by chance on average.

    The others are as in `MembershipInference`. A record's score is minus its loss under the model that the victim ended with. It
    is not held against other models: whether the attacker's own run trained on a record says nothing of the victim. Attacks with
    many models of the same training, on and without the record (LiRA), find more where those can be made.
    """

    name: str = "membership by the final model"
    unit: str = "2 AUC - 1 over a victim's records and others of the same labels"
    side: str = "the records in question, and the model that the victim ended with"
    source: str = "loss (Yeom et al. 2018)"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        return "targets are tokens" if evidence.view.public.auxiliary.y.ndim == 2 else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        victims = comparable(truth, victims_of(evidence.view, budget.victims, rng))
        module = deepcopy(evidence.view.public.module).cpu().eval()
        members, others = list[Values](), list[Values]()
        for i in victims:
            records, count = compared(truth, i, budget.records, rng)
            scores = np.zeros(len(records))
            if i in evidence.released:
                load_vector(module, evidence.released[i][: dimension(module)].copy())
                with torch.no_grad():
                    found = losses(module(records.x), records.y, evidence.view.public.training.loss)
                    scores = -found.double().reshape(len(records), -1).mean(1).numpy()
            members.append(scores[:count])
            others.append(scores[count:])
        return found_of(victims, members, others)
