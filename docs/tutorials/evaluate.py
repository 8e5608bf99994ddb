# %% [markdown]
# # Evaluate a defence
#
# For whoever has an attack or a robust rule and wants to know what it is worth. You play attacks against defences, each beside the
# same defence without attackers, search how many attackers break one, and see which defences are left under secure aggregation.
#
# Its tables need pandas: `pip install 'cloister[pandas]'`.
#
# An evaluation is a Python value, as a scenario is.

# %%
# !cloister new evaluate

# %%
from pathlib import Path

print(Path("evaluate.py").read_text())

# %% [markdown]
# A suite of attacks against three defences, on data alike and skewed, and runs without attack and without the attackers' data beside them.
# Two seeds here; the file has three.

# %%
# !cloister evaluate evaluate.py --seeds 0,1 --workers 1 --out runs/evaluation 2> progress.txt

# %% [markdown]
# The page is [in the gallery](../gallery/evaluate.html); `table.csv` has a row for each run, with what it lost, what that is held against,
# and whether it breaks the defence. `cloister.load("runs/evaluation").frame()` is the same as a data frame.

# %%
import pandas

runs = pandas.read_csv("runs/evaluation/table.csv")
runs[["attack", "defence", "partition", "seed", "verdict", "lost", "accuracy.late"]].dropna().sort_values("lost").tail()

# %% [markdown]
# A defence is to be judged by what an attack costs its loyal clients, over seeds, and not by the best round of fifty: training may collapse
# afterwards. So *lost* is accuracy below the lower of the runs without attack and without the attackers' data, of the same seed, mean of the
# last quarter of a run's evaluations, ten at most; and the least of all seeds is shown beside the mean. A last evaluation that lies as far
# below all of that breaks a defence by itself, as it is of the model that is delivered. Broken is the same thing in
# `evaluate`, `breakdown` and `attack`, and each says its bounds.
#
# ## How many attackers does it take?
#
# `cloister breakdown` searches the smallest strength that breaks a defence, by accuracy or by a backdoor.

# %%
# !cloister breakdown evaluate.py --against median --attack "minus gradient" --least 1 --most 10 --seeds 0,1 --workers 1 --out runs/evaluation --resume 2> progress.txt

# %% [markdown]
# ## Under secure aggregation
#
# A coordinate-wise rule needs every update. Under `Masked` the server has none, and the scenario is refused when it is built, with the
# rules that do their work on inner products alone.

# %%
from dataclasses import replace

from cloister import algorithms, protections, rules
from evaluate import base
from cloister.protocol.core.errors import Refused

try:
    replace(base, algorithm=algorithms.RobustFedAvg(rule=rules.Median()), protection=protections.Masked())
except Refused as refused:
    print(refused)

# %%
import cloister
from cloister import attacks

corrupt = attacks.Adversary(members=attacks.Pool(4), upload=attacks.MinusGradient(), knows=attacks.Level.OMNISCIENT)
short = replace(base, protection=protections.Masked(), adversary=corrupt, rounds=15)
for name, algorithm in {
    "mean": algorithms.FedAvg(),
    "geometric median": algorithms.RobustFedAvg(rule=rules.GeometricMedian()),
    "mixing, then Multi-Krum": algorithms.RobustFedAvg(rule=rules.Mixed((rules.NNM(f=4),), rules.MultiKrum(f=4))),
}.items():
    done = cloister.run(replace(short, name=name, algorithm=algorithm), f"runs/{name}", quiet=True)
    print(f"{name:24} {done.accuracy:.3f}   {done.privacy['smallest_sum']} clients in the smallest sum")

# %% [markdown]
# The accuracy here is over all clients, the corrupt ones too, of one seed: put the three into an evaluation with
# `protections={"Plain": ..., "Masked": ...}` before you believe it.
#
# Next: [your own defence](../how-to/my-defence.md), [your own attack](../how-to/my-attack.md), [your own protection](../how-to/my-protection.md), and what
# [attacks that adapt](../../examples/results/hardened_flic.md) find.
