"""Two clients fit a line together, and their weights drift apart: FLIC, Espinoza Castellon et al. 2022, section I, Fig. 1.

One parameter, y = w x + noise, 50 samples on each of two clients, 10 local epochs, 10 rounds of federated averaging. IID: the
parameter is 45 for both. Non-IID: 20 for one and 70 for the other, and the model ends in the middle, where it serves neither.

    python examples/flic_fig1_linear_regression.py --seed 0 --out runs/flic_fig1        # the paper's scale, a second

The paper prints neither noise nor inputs; here both are standard normal. Step size and batch are those of its section IV-A.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

Values = NDArray[np.float64]

SAMPLES, EPOCHS, ROUNDS, BATCH, STEP = 50, 10, 10, 10, 0.01
CASES = {"IID": (45.0, 45.0), "non-IID": (20.0, 70.0)}
INK, GREY, COLOURS = "#1f2933", "#8a94a0", ("#2f6fad", "#d9822b")


def local_training(w: float, x: Values, y: Values, rng: np.random.Generator) -> list[float]:
    """The client's weight after every local epoch of minibatch SGD on the mean squared error (Algorithm 1, lines 26-36)."""
    path = []
    for _ in range(EPOCHS):
        for batch in np.array_split(rng.permutation(len(x)), len(x) // BATCH):
            w -= STEP * 2 * float(np.mean((w * x[batch] - y[batch]) * x[batch]))
        path.append(w)
    return path


def federated(parameters: tuple[float, ...], rng: np.random.Generator) -> tuple[Values, Values]:
    """Federated averaging from 0: global weights (rounds + 1,), and the clients' after every epoch (clients, rounds, epochs)."""
    x = rng.normal(size=(len(parameters), SAMPLES))
    y = np.array(parameters)[:, None] * x + rng.normal(size=x.shape)
    w, paths = [0.0], []
    for _ in range(ROUNDS):
        paths.append([local_training(w[-1], *data, rng) for data in zip(x, y, strict=True)])
        w.append(float(np.mean([path[-1] for path in paths[-1]])))  # equal numbers of samples
    return np.array(w), np.array(paths).transpose(1, 0, 2)


def draw(axes: Axes, name: str, w: Values, paths: Values) -> None:
    """Each client's weight within the rounds, from the global weight on, and the global weight between them."""
    epochs = np.linspace(0, 1, EPOCHS + 1)
    for client, (rounds, colour) in enumerate(zip(paths, COLOURS, strict=True)):
        axes.axhline(CASES[name][client], color=colour if name != "IID" else GREY, lw=1, ls=(0, (4, 3)))
        for t, path in enumerate(rounds):
            label = f"client {client + 1}" if t == 0 else None
            axes.plot(t + epochs, [w[t], *path], color=colour, lw=1.8, ls="-" if client == 0 else (0, (3, 1.2)), label=label)
    axes.plot(range(ROUNDS + 1), w, ls="", marker="o", ms=5, color=INK, label="global model", zorder=3)
    axes.set_title(f"{name}: parameters {' and '.join(f'{p:.0f}' for p in CASES[name])}", fontsize=11, color=INK)
    axes.set(xlabel="round", xticks=range(0, ROUNDS + 1, 2), xlim=(-0.2, ROUNDS + 0.2), ylim=(-3, 76))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main() -> None:
    """Run both cases, print where they end, write linear_regression.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9.4, 3.9), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(CASES), sharey=True)
    numbers = {}
    for axes, (name, parameters) in zip(panels, CASES.items(), strict=True):
        w, paths = federated(parameters, np.random.default_rng(arguments.seed))
        draw(axes, name, w, paths)
        ends = paths[:, :, -1]
        drift = np.abs(ends[0] - ends[1]).tolist()
        numbers[name] = {"global": w.tolist(), "clients": ends.tolist(), "apart": drift}
        print(f"{name}: global weight {w[-1]:.2f} after {ROUNDS} rounds, clients end their last round {drift[-1]:.2f} apart")
    panels[0].set_ylabel("weight")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(arguments.out / "linear_regression.png", dpi=130)
    (arguments.out / "linear_regression.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
