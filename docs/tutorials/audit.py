# %% [markdown]
# # Audit a run
#
# For whoever has to say what a server of clustered federated learning can find out about its clients. You play a small run, look at
# what each party was told, and have that attacked. It takes a minute or two on one core.
#
# Its tables need pandas: `pip install 'cloister[pandas]'`.
#
# Begin with a scenario: a Python file that says data, model, algorithm, protection and rounds.

# %%
# !cloister new quickstart

# %%
from pathlib import Path

print(Path("quickstart.py").read_text())

# %% [markdown]
# `protection=Masked(...)` is the line that an audit is about: the server gets masked updates that only add up, and similarities from
# sketches under keys that it does not have. Play it: here for 25 rounds, with 33 clients, because an audit of one run of 24 has too few
# victims to say more than "inconclusive".

# %%
from dataclasses import replace

import cloister
from quickstart import scenario

scenario = replace(scenario, rounds=25, partition=replace(scenario.partition, clients=33))
result = cloister.run(scenario, "runs/quickstart")
result

# %% [markdown]
# ## What each party was told
#
# Every answer that the protection gave is in the disclosure log: to whom, what, about which clients, how many numbers. An algorithm
# never sees an update, so that this log is all that the server's program was told.

# %%
told = result.frame("disclosures")
told.groupby(["recipient", "what", "words"]).agg(answers=("round", "size"), numbers=("scalars", "sum")).reset_index()

# %% [markdown]
# Three things sum that up: the differential privacy of the run, if any; the fewest clients in a sum that anybody was told; and what
# could be pieced together of single updates, were one to solve all sums of all rounds together.

# %%
pieced = result.privacy["pieced_together"]
{
    "epsilon": result.privacy["epsilon"] or "none: no noise was added for differential privacy",
    "fewest clients in a sum": result.privacy["smallest_sum"],
    "of a single update, at most": pieced["span"]["largest"],
    "of taking part, at most": round(pieced["leverage"]["largest"], 3),
}

# %%
# %matplotlib inline
result.plot("leakage")

# %% [markdown]
# The lines are shares, from 0 (nothing beside the cluster's mean) to 1 (the update is known). That is linear algebra on the log, and
# says nothing about what an attacker who knows the data, or trains models of its own, could make of it. That is what the audit tries.
#
# ## Attack it
#
# `cloister audit` plays the scenario again, and once more in clear, gives each attack exactly what a corrupt party sent, received and
# holds, and scores its guesses between two ends: 0, what the published sums alone tell, and 1, what the updates tell. One seed is
# enough to see how it works; the default is two, and `--budget full` takes five, and an hour and more: one that is stopped goes on
# with `--resume`.

# %%
# !cloister audit quickstart.py --set rounds=25 --set partition.clients=33 --seeds 0 --out runs/audit >audit.txt 2>&1; tail -n 2 audit.txt

# %% [markdown]
# The page that it wrote is [in the gallery](../gallery/audit.html). The same is in `audit.json`: one row for each observer and each
# thing sought.

# %%
import json

import pandas

audit = json.loads(Path("runs/audit/audit.json").read_text())
measured = [
    {
        "observer": row["observer"],
        "sought": row["experiment"],
        "found here": row["leakage"]["here"],
        "by sums alone": row["leakage"]["aggregate"],
        "in clear": row["leakage"]["plain"],
        "leakage": row["leakage"]["value"],
        "at most": row["leakage"]["upper"],
        "told apart": row["leakage"]["valid"],
    }
    for row in audit["rows"]
    if row["leakage"]
]
pandas.DataFrame(measured).round(2)

# %% [markdown]
# `leakage` puts what was found on the way from 0 (what the sums tell) to 1 (what updates in clear tell); `at most` is the upper end of its
# 95 % interval: over victims, of which runs of other seeds have others, so that with fewer than three seeds it is too narrow; from three on it
# is over runs and victims. (Your own clients are the same in every run: then it is of these clients, each counted once a run.) `told apart` is false where the attack fails in clear too, so that nothing follows from its failing here.
#
# Who should stay out of what is a list of claims, each tried against the observer that it is about:

# %%
claims = [claim for row in audit["rows"] for claim in row["claims"]]
pandas.DataFrame(claims)[["claim", "verdict", "witness"]].style.hide()

# %% [markdown]
# ## Read the verdicts
#
# | verdict | what it means | what to do |
# | --- | --- | --- |
# | not refuted | the attack finds things in clear, and next to nothing here; the number is the most that the data leave possible, at 95 % one-sided | nothing; it is evidence, and no proof |
# | refuted | the attack finds more than the claim allows; for a claim of Cloister's the command ends with exit code 4 | do not deploy this; see the witness, the client that is worst off |
# | inconclusive | the attack fails in clear too, or there are too few clients to tell | what the row says: so many seeds, or data on which the attack works |
# | not covered | no experiment could be made of this run, for the reason that is given | do not count on the claim because of this audit |
#
# The first words of the page name what leaks without a claim that covers it, such as who shares a cluster, which whoever watches the links sees; and
# how many promises hold under other settings, and not for your run. Where a method uses slots, or clients have models of their own (FPFC, PFedGraph),
# they say that nothing could be tried. Name coalitions of your own with `--against server+client:0,3`.
#
# Claims of papers are tried beside ours, and some are expected to fall. Which promise rests on which claim is in the
# [threat models](../explanation/threat-models.md); a lying server is the subject of [SECURITY.md](../../SECURITY.md).
#
# Next: take `protection=protections.Plain()` or `Permuted()` in the scenario and audit again, and see the same attacks succeed.
# Your own attack is [a function of twenty lines](../how-to/my-attack.md).
