"""What a client's model scores depends on its own records alone, also where the model predicts for several together."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cloister.fl.data.population import Examples
from cloister.fl.models.fit import check_tested
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.evaluation import ScoringJob, accuracies, accuracies_in


class Centred(nn.Module):
    """Of one's own, without a layer that says so."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def network(first: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(first, nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def held_out(sizes: tuple[int, ...]) -> dict[int, Examples]:
    """Clients that lie apart, so that means over all of them are nobody's."""
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 3)) + 3 * i for i, n in enumerate(sizes)]
    ys = [(x[:, 0] > 3 * i).astype(np.int64) for i, x in enumerate(xs)]
    return {
        i: Examples(torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for i, (x, y) in enumerate(zip(xs, ys, strict=True))
    }


@pytest.mark.parametrize("first", [nn.BatchNorm1d(3, track_running_stats=False), Centred()], ids=["BatchNorm", "own"])
def test_each_is_scored_by_itself_where_records_are_predicted_together(first: nn.Module) -> None:
    module = network(first)
    vector, clients = to_vector(module), held_out((30, 20, 2, 40))
    jobs = [ScoringJob(i, vector, examples) for i, examples in clients.items()]
    alone = {job.client: accuracies(module, [job])[job.client] for job in jobs}
    assert accuracies(module, jobs) == alone
    assert accuracies_in(module.eval(), jobs) == alone
    with torch.no_grad():
        by_hand = (module(clients[0].x).argmax(1) == clients[0].y).double().mean()
    assert alone[0].accuracy == float(by_hand)


def test_others_are_scored_in_common_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    module, clients = network(nn.LayerNorm(3)), held_out((30, 20, 40))
    vector = to_vector(module)
    seen: list[int] = []
    module[1].register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    accuracies_in(module.eval(), [ScoringJob(i, vector, examples) for i, examples in clients.items()])
    assert seen[-1] == 90


def test_no_batch_leaves_one_record_alone() -> None:
    module = network(nn.BatchNorm1d(3, track_running_stats=False))
    (examples,) = held_out((13,)).values()
    assert accuracies(module, [ScoringJob(0, to_vector(module), examples)], batch=4)[0].accuracy >= 0


def test_a_client_with_one_record_to_test_on_is_refused_where_the_model_needs_two() -> None:
    like = torch.zeros(4, 3)
    check_tested(network(nn.LayerNorm(3)), like, {0: 1})
    check_tested(network(nn.BatchNorm1d(3, track_running_stats=False)), like, {0: 2})
    with pytest.raises(ValueError, match="client 7 has one record to test on, and the model needs two"):
        check_tested(network(nn.BatchNorm1d(3, track_running_stats=False)), like, {0: 2, 7: 1})
