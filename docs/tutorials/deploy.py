# %% [markdown]
# # From CSV files to a deployment
#
# For an engineer of a consortium: six hospitals, each with a CSV file that stays where it is, want models of their own kind of
# patients, and nobody knows yet that there are two kinds. First everything is simulated in one process, to choose; then it runs between
# processes, with keys and TLS.
#
# The processes need the extra `deploy`: `pip install 'cloister[deploy]'`.
#
# ## The data
#
# Here the files are made up: twelve measurements and one of three diagnoses; in every second hospital other values speak for the same
# diagnosis. Yours would be there already.

# %%
import csv
from pathlib import Path

import numpy as np

HOSPITALS, VALUES = 6, 12
rng = np.random.default_rng(0)
ways = [rng.normal(size=(VALUES, 3)) for _ in range(2)]


def write(path: Path, values: np.ndarray, diagnoses: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*(f"value {k}" for k in range(VALUES)), "label"])
        rows.writerows([*map(float, 10 * row + 30), int(d)] for row, d in zip(values, diagnoses, strict=True))


Path("data").mkdir()
for hospital in range(HOSPITALS):
    values = rng.normal(size=(240, VALUES))
    diagnoses = (values @ ways[hospital % 2] + 0.3 * rng.normal(size=(240, 3))).argmax(1)
    write(Path("data") / f"hospital {hospital}.csv", values, diagnoses)
print(*sorted(path.name for path in Path("data").iterdir()), sep="\n")

# %% [markdown]
# ## Simulate
#
# The model is a module of torch. Its first layer brings values to one scale, by constants that the parties agree on: these values lie
# around 30, give or take 10. A `BatchNorm` would take its means from the records that it predicts together, and could not predict for one
# patient; [how to use your own data](../how-to/my-data.md) says more.

# %%
import cloister
from cloister import Scenario, Training, algorithms, data, protections
from torch import Tensor, nn


class Standardise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - 30.0) / 10.0


scenario = Scenario(
    name="hospitals",
    data=data.from_csv("data"),
    model=nn.Sequential(Standardise(), nn.Linear(VALUES, 16), nn.ReLU(), nn.Linear(16, 3)),
    training=Training(epochs=3, batch=30, lr=0.1),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74), patience=3),
    protection=protections.Masked(),
    rounds=12,
)
result = cloister.run(scenario, "runs/simulated")
result

# %%
# %matplotlib inline
result.plot("accuracy")

# %% [markdown]
# Nobody said that there are two kinds of hospitals, and so the table has no figure of how well they were found; it says who is with whom,
# and what that gained. No sum is over fewer than three clients (`floor`): a cluster of fewer would keep the model that it has.
#
# ## Agree on a file
#
# In the deployment nobody has all files. The parties agree on one scenario file, which names columns, labels and number of clients, and
# has no records. The model is a function that makes the module: its first weights follow from the scenario's seed then, and are the same
# with everybody. It differs from the scenario above in these two; whoever has all files (a pilot's, say) can simulate the agreed file
# itself, `cloister run agreed.py --set 'data=from_csv("data")'`.

# %%
_ = Path("agreed.py").write_text("""
from cloister import Scenario, Training, algorithms, data, protections
from torch import nn


class Standardise(nn.Module):
    def forward(self, x):
        return (x - 30.0) / 10.0


def network(shape, classes):
    return nn.Sequential(Standardise(), nn.Linear(shape[0], 16), nn.ReLU(), nn.Linear(16, classes))


scenario = Scenario(
    name="hospitals",
    data=data.agreed_columns([f"value {k}" for k in range(12)], labels=[0, 1, 2], clients=6),
    model=network,
    training=Training(epochs=3, batch=30, lr=0.1),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74), patience=3),
    protection=protections.Masked(),
    rounds=12,
)
""")

# %% [markdown]
# Each hospital looks at its own file, with nobody connected: what is in it, and whether it is what was agreed.

# %%
# !cloister join --check --data "data/hospital 0.csv" --scenario agreed.py

# %% [markdown]
# What a round will cost each party:

# %%
# !cloister cost agreed.py --rounds 1 2> progress.txt

# %% [markdown]
# ## Keys
#
# An authority, which takes no part in the run, says who is who. `keys init` makes all keys in one place, which is for trying out: in
# earnest each party makes its own, as the [guide for operators](../../examples/deployment/README.md) shows.

# %%
# !cloister keys init pki --run trial --clients 6 --server-name localhost

# %% [markdown]
# ## Run
#
# Seven processes: a coordinator that has no data, and six clients, each with its own file, keys and journal. The coordinator knows no
# client's records, so it asks clients how well they predict (`--ask-scores`); each may decline (`join --no-scores`).

# %%
import json
import subprocess
import time

serve = "cloister serve agreed.py --listen 127.0.0.1:0 --keys pki/parties/coordinator --out runs/deployed --ask-scores --wait 600"
with open("coordinator.log", "w") as log:
    coordinator = subprocess.Popen(serve.split(), stderr=log)


def said() -> list[dict]:
    return [json.loads(line) for line in Path("coordinator.log").read_text().splitlines() if line.startswith("{")]


while not (listening := [line for line in said() if line["what"] == "listening"]):
    time.sleep(0.1)
address = f"localhost:{listening[0]['port']}"

clients = []
for k in range(HOSPITALS):
    join = ["cloister", "join", address, "--scenario", "agreed.py", "--keys", f"pki/parties/client-{k}"]
    join += ["--folder", f"client-{k}", "--data", f"data/hospital {k}.csv"]
    with open(f"client-{k}.log", "w") as log:
        clients.append(subprocess.Popen(join, stderr=log))
print("exit codes", [process.wait() for process in (coordinator, *clients)])

# %%
deployed = cloister.load("runs/deployed")
deployed

# %% [markdown]
# ## What a hospital has to show for it
#
# Each client's folder is its own record, written by its own process: what it revealed, to whom, what it spent of a privacy budget, what
# it refused. A data protection officer reads that page, [here client 0's](../gallery/client.html).

# %%
# !cloister report client-0

# %% [markdown]
# ## Predict
#
# Its `model.safetensors` has the parameters, and the agreed columns and labels in their order. With the function of the agreed file a
# hospital predicts for one patient:

# %%
import torch
from agreed import network
from safetensors import safe_open

with safe_open("client-0/model.safetensors", "pt") as file:
    columns, labels = (json.loads(file.metadata()[name]) for name in ("columns", "labels"))
    model = network((len(columns),), len(labels))
    model.load_state_dict({name: file.get_tensor(name) for name in model.state_dict()})

with open("data/hospital 0.csv", newline="") as file:
    patient = next(csv.DictReader(file))
outputs = model(torch.tensor([[float(patient[name]) for name in columns]]))[0]
print(f"predicted {labels[int(outputs.argmax())]}, diagnosed {patient['label']}")

# %% [markdown]
# Three hospitals of a kind are just as many as a sum needs (`floor`): while one of them is away its cluster learns nothing. Plan spares, or
# agree on a smaller floor.
#
# Next: [operating a deployment](../../examples/deployment/README.md) (sizing, alarms, what to do when), and the
# [audit](audit.md) of the simulated run before anybody's data is used.
