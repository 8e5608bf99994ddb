"""Your own data: a folder `data` with a CSV file for each client, whose columns are numbers and `label`.

    cloister run my_data.py
    cloister run my_data.py --yardsticks        and what the groups are worth: one model, every client alone, other seeds

Nobody has to know groups: the report says which clients were put together. A share of each client's rows is held out to score
models by.
"""

from torch import nn

from cloister import Scenario, Training, algorithms, data, protections

# Other forms: one file with a column that names the client, from_csv("all.csv", client="hospital"); from_dataframe;
# from_datasets, of torch; from_folders, of images; from_leaf, of LEAF's JSON files; from_hugging_face. Where the label is a
# number to be predicted: from_csv(..., numbers=True), and below Training(..., loss="mean squared error").
source = data.from_csv("data", label="label")


def network(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A function, as a module made here would have other first weights whenever this file is read."""
    return nn.Sequential(
        # Columns may differ in scale; running statistics are not averaged. It scales by the records that are predicted together:
        # for a model that is to predict for one alone, scale the columns by agreed numbers instead.
        nn.BatchNorm1d(shape[0], track_running_stats=False),
        nn.Linear(shape[0], 32),
        nn.ReLU(),
        nn.Linear(32, classes),
    )


scenario = Scenario(
    name="my data",
    data=source,
    model=network,
    training=Training(epochs=3, batch=30, lr=0.1),
    # A cluster is split when its mean update is small beside single ones: eps1 bounds the ratio. eps2: once single ones are below
    # this share of the first round's, nothing is split any more.
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74), patience=5),
    # No sum is over fewer than three honest clients: a smaller cluster keeps the model that it has.
    protection=protections.Masked(),
    rounds=30,
)
