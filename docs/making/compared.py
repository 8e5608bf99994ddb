"""A small comparison for the gallery: five methods on two kinds of digits, in clear and under masked sums."""

from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.fl.runs.comparison import Comparison, Method, Search


def digits(partition: object) -> Scenario:
    """What all methods have in common."""
    return Scenario(
        name="digits",
        data=data.Digits(),
        partition=partition,  # type: ignore[arg-type]
        model=models.Mlp(hidden=(32,)),
        training=Training(epochs=3, batch=10, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Plain(),
        rounds=15,
        validation=0.1,
        evaluate_every=15,
    )


RATES = (0.1, 0.2)
comparison = Comparison(
    name="five methods on digits",
    scale="quick",
    data={
        "turned": digits(partitions.Rotation(clients=12, angles=(0, 180))),
        "swapped": digits(partitions.LabelSwap(clients=12, groups=2)),
    },
    methods={
        "LOCAL": Method(algorithm=algorithms.Local(), grid={"training.lr": RATES}),
        "FedAvg": Method(algorithm=algorithms.FedAvg(), grid={"training.lr": RATES}),
        "Oracle": Method(algorithm=algorithms.Oracle(), grid={"training.lr": RATES}, fits=("turned", "swapped")),
        "CFL": Method(
            algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.1), patience=5),
            grid={"algorithm.thresholds.eps1": (0.4, 0.6)},
            fits=("turned", "swapped"),
        ),
        "FLIC": Method(
            algorithm=algorithms.FLIC(rounds_before=8), grid={"algorithm.rounds_before": (5, 8)}, fits=("turned", "swapped")
        ),
    },
    protections={"Plain": protections.Plain(), "Masked": protections.Masked()},
    seeds=(1, 2),
    search=Search(seeds=(100,), configurations=2),
)
