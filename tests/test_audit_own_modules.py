"""Audits of modules of the user's own: what draws in training, and what an attack of ours cannot take."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from cloister.auditing.audited import audited
from cloister.auditing.first_words import notes
from cloister.auditing.losses import check_of_labels
from cloister.fl.clients.training import Training
from cloister.fl.data.population import Examples
from cloister.fl.models.vector import to_vector
from cloister.protocol import Plain
from cloister.threat_models.audit.final_models import FinalModelMembership
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.membership import MembershipInference
from cloister.threat_models.inference.record_membership import gradients, losses, pieces

from .test_own_attack import SPEND, played

pytestmark = pytest.mark.trains


class WithDropout(nn.Module):
    """Draws in training, and predicts without."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.LayerNorm(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Particular(WithDropout):
    """Takes one record at a time in no way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            raise RuntimeError("it takes two")
        return self.layers(x)


@pytest.mark.parametrize(
    ("kind", "reason"), [(WithDropout, ""), (Particular, "does not take this model: RuntimeError: it takes two")]
)
def test_an_audit_of_a_module_with_dropout_is_played_to_its_end(kind, reason):
    """It ended in an error of torch's, and all that had been tried was lost."""
    training = Training(epochs=1, batch=1000, lr=0.1)
    scenario = replace(played().scenario, model=lambda shape, classes: kind(), training=training, protection=Plain(), rounds=1)
    found = audited(
        scenario, SPEND, (0,), None, quiet=True, against=["server"], experiments=[LabelInference(), MembershipInference()]
    )
    assert [row["experiment"] for row in found["rows"]] == ["labels", "membership"]
    assert found["rows"][1]["reason"] == reason
    assert (found["rows"][1]["leakage"] is None) == bool(reason)


def focal(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Lin et al. 2017, with gamma 2."""
    log = torch.log_softmax(outputs, dim=1).gather(1, targets[:, None])[:, 0]
    return -((1 - log.exp()) ** 2) * log


def particular(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What it gives follows from what outputs are, which no gradient of many at once can be taken of."""
    return focal(outputs, targets) if float(outputs.detach().sum()) > -1e9 else focal(-outputs, targets)


def fails(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    if len(outputs) == 1:
        raise RuntimeError("it takes two")
    return focal(outputs, targets)


@pytest.mark.parametrize(("loss", "reason"), [(focal, ""), (particular, ""), (fails, "does not take this loss: ")])
@pytest.mark.long
def test_an_audit_of_a_loss_of_ones_own_is_played_to_its_end(loss, reason):
    """It was refused, with nothing to do about it."""
    training = Training(epochs=1, batch=1000, lr=0.1, loss=loss)
    scenario = replace(played().scenario, training=training, protection=Plain(), rounds=1)
    tried = [LabelInference(), MembershipInference(), FinalModelMembership()]
    found = audited(scenario, SPEND, (0,), None, quiet=True, against=["server", "outsider"], experiments=tried)
    assert [row["experiment"] for row in found["rows"]] == ["labels", "membership", "membership by the final model"]
    assert found["rows"][1]["reason"].startswith(reason)
    assert (found["rows"][1]["leakage"] is None) == bool(reason)
    assert found["rows"][2]["leakage"] is not None
    assert any(line.startswith("records are told by the loss that clients train by") for line in notes(found))


def test_gradients_and_losses_are_by_the_loss_that_clients_train_by() -> None:
    torch.manual_seed(0)
    module, x, y = WithDropout().eval(), torch.rand(6, 1, 8, 8), torch.arange(6)
    at, records = to_vector(module), Examples(x, y)
    one, other = (torch.cat(list(gradients(module, pieces(module, at), records, loss))) for loss in (focal, particular))
    assert torch.allclose(one, other, atol=1e-6)
    own = focal(module(x), y)
    assert np.allclose(losses(module, at, records, focal), own.detach().numpy(), atol=1e-6)
    for k in range(6):
        module.zero_grad()
        focal(module(x[k : k + 1]), y[k : k + 1]).sum().backward()
        assert torch.allclose(one[k], torch.cat([p.grad.flatten() for p in module.parameters()]), atol=1e-6)


def test_an_audit_of_one_output_for_two_labels_says_what_to_do():
    training = Training(epochs=1, batch=10, lr=0.1, loss="binary cross entropy")
    with pytest.raises(ValueError, match=r"training.loss is 'binary cross entropy': audit the same with 'cross entropy' and an"):
        check_of_labels(training, played().audited.truth.population)


def test_gradients_and_losses_are_of_a_model_that_predicts() -> None:
    torch.manual_seed(0)
    module, x, y = WithDropout().train(), torch.rand(6, 1, 8, 8), torch.arange(6)
    at, records = to_vector(module), Examples(x, y)
    one, other = (torch.cat(list(gradients(module, pieces(module, at), records))) for _ in range(2))
    assert torch.equal(one, other)
    assert np.array_equal(losses(module, at, records), losses(module, at, records))
    assert all(part.training for part in module.modules())
    module.eval()
    for k in range(6):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(x[k : k + 1]), y[k : k + 1]).backward()
        assert torch.allclose(one[k], torch.cat([p.grad.flatten() for p in module.parameters()]), atol=1e-6)
    assert not any(part.training for part in module.modules())
