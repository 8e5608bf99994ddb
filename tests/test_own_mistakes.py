"""Mistakes in a user's own parts are said by the part's name, before anything is trained on them."""

import numpy as np
import pytest
import torch

from cloister import Training, attacks, data
from cloister.fl.clients.losses import losses
from cloister.fl.clients.measures import measures
from cloister.fl.clients.training import optimizer_of
from cloister.fl.data.function import as_data
from cloister.fl.functions import Unfit
from cloister.fl.models.papers import initial
from cloister.fl.robust.function import as_rule


def frame(**changed):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"home": ["a", "b"] * 5, "x": np.arange(10.0), "label": ["p", "p", "q", "q", "p"] * 2, **changed})


@pytest.mark.parametrize("column", ["label", "home"])
def test_an_empty_cell_of_a_label_or_a_client_is_no_class_and_no_client(column):
    table = frame()
    table.loc[3, column] = None
    with pytest.raises(ValueError, match=f"column '{column}' of the data frame is empty in record 4"):
        data.from_dataframe(table, label="label", client="home")


def test_a_model_of_other_arguments_is_told_which_it_is_given():
    with pytest.raises(Unfit, match=r"it takes nothing, .*; write def NAME\(shape, classes\)$"):
        initial(lambda: torch.nn.Linear(2, 2), (2,), 2, 0)


def test_dates_are_no_inputs():
    with pytest.raises(ValueError, match="'x' of the data frame has dates"):
        data.from_dataframe(frame(x=np.full(10, np.datetime64("2020-01-01", "ns"))), label="label", client="home")


def test_a_client_without_records_and_a_shape_without_channels_are_refused():
    with pytest.raises(ValueError, match=r"client 'b' of data sets has no records"):
        data.from_datasets({"a": [(torch.zeros(2), 0)] * 5, "b": []})
    with pytest.raises(ValueError, match=r"shape is .channels, height, width."):
        data.from_folders("images", shape=(8, 8))


def test_an_optimizer_and_metrics_that_do_not_fit():
    with pytest.raises(ValueError, match=r"training.optimizer, .*takes p, and is called with parameters and lr"):
        Training(epochs=1, batch=1, lr=0.1, optimizer=lambda p: p)
    with pytest.raises(ValueError, match=r"training.optimizer, LBFGS, is not stepped by gradients alone: it takes self, closure"):
        Training(epochs=1, batch=1, lr=0.1, optimizer=torch.optim.LBFGS)
    with pytest.raises(ValueError, match=r"or a function of \(parameters, lr\), not an Adam$"):
        Training(epochs=1, batch=1, lr=0.1, optimizer=torch.optim.Adam([torch.zeros(1)]))
    stepped = Training(epochs=1, batch=1, lr=0.1, optimizer=lambda p, lr: torch.optim.LBFGS(p, lr))
    with pytest.raises(Unfit, match="LBFGS, is not stepped by gradients alone"):
        optimizer_of(stepped, [torch.nn.Parameter(torch.zeros(1))], 0)
    with pytest.raises(ValueError, match=r"metric .*takes o, and is called with outputs and targets"):
        Training(epochs=1, batch=1, lr=0.1, metrics=(lambda o: 1,))
    (found,) = measures((lambda o, y: None,), False).values()
    with pytest.raises(Unfit, match="returned None, where one number is taken"):
        found(np.zeros((1, 2)), np.zeros(1))


def test_a_rule_that_names_no_sight_and_an_attack_and_data_of_other_arguments():
    class Named:
        sees = "gram"
        shift_invariant = True

        def weights(self, gram, rng, /):
            return gram[0]

    with pytest.raises(ValueError, match="sees 'gram'; it is one of Sight"):
        as_rule(Named())
    with pytest.raises(Unfit, match=r"test_own_mistakes.py, line \d+\) does not fit"):
        attacks.Adversary(members=attacks.Pool(1), upload=lambda own, more: own)
    with pytest.raises(ValueError, match=r"test_own_mistakes.py, line \d+\), does not fit"):
        as_data(lambda: None)


@pytest.mark.parametrize("error", [RuntimeError("oops\nand more"), ValueError("oops"), KeyError("oops")], ids=repr)
def test_what_a_loss_or_a_metric_raises_is_said_by_its_name_and_line(error):
    def mine(outputs, targets):
        raise error

    where = r"mine \(test_own_mistakes.py, line \d+\), failed in test_own_mistakes.py, line \d+: "
    with pytest.raises(Unfit, match=rf"^training.loss, {where}{type(error).__name__}: '?oops"):
        losses(torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64), mine)
    with pytest.raises(Unfit, match=rf"^metric, {where}{type(error).__name__}: '?oops"):
        measures((mine,), False)["mine"](np.zeros((1, 2)), np.zeros(1))
