"""A regression on CSV files: twelve clinics predict a number, and do not know that their patients respond in two ways.

Each file has a header, a column `dose`, and numbers. Clients train by Huber's loss with Adam, whose state never leaves them; the
server learns sums and noisy similarities of updates, never one client's. One model for all explains little of the doses; CFL
finds the two kinds of clinics by the directions of updates, and each kind has a model of its own.

    python examples/regression.py            makes up the files, in a temporary folder; half a minute
    python examples/regression.py FOLDER     your own: one CSV file for each client, with a column `dose`

R2 is the share of the doses' variance that a clinic's model explains on its own test data: 1 is all, 0 no more than the mean.
"""

import csv
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import cloister
from cloister import Scenario, Training, algorithms, data, models, protections


def make_up(folder: Path) -> None:
    """Files of 12 clinics with 200 patients each: 8 values, and a dose that goes with them in one of two ways."""
    rng = np.random.default_rng(0)
    ways = rng.normal(size=(2, 8)) / np.sqrt(8)
    for clinic in range(12):
        values = rng.normal(size=(200, 8))
        dose = values @ ways[clinic % 2] + 0.2 * rng.normal(size=200)
        with (folder / f"clinic {clinic:02}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([*(f"value {k}" for k in range(8)), "dose"])
            rows.writerows([*map(float, row), float(d)] for row, d in zip(values, dose, strict=True))


def scenario(folder: Path) -> Scenario:
    """Clustered federated learning of a perceptron with one output, under masked sums."""
    return Scenario(
        name="doses",
        data=data.from_csv(folder, label="dose", numbers=True),
        model=models.Mlp(hidden=(16,)),
        training=Training(epochs=3, batch=20, lr=0.01, loss="Huber", optimizer="Adam", metrics=("R2", "MSE")),
        algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.5), patience=5),
        protection=protections.Masked(),
        rounds=30,
    )


def main() -> None:
    """One model for all, and CFL."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(sys.argv[1]) if sys.argv[1:] else Path(place)
        if not sys.argv[1:]:
            make_up(folder)
        clustered = scenario(folder)
        for one in (replace(clustered, name="one model", algorithm=algorithms.FedAvg()), clustered):
            print(cloister.run(one), end="\n\n")


if __name__ == "__main__":
    main()
