"""The worst that a search finds against the hardened FLIC: attacks of several families, their numbers drawn, then varied.

Run it:  python examples/hardened_flic_search.py --quick --out FOLDER    digits, one seed, two trials a family, about a minute
         python examples/hardened_flic_search.py --out FOLDER            digits, 8, 10, 11 and 12 of 20 clients corrupt
         python examples/hardened_flic_search.py --skew --out FOLDER     the same with labels dealt by Dirichlet(0.5)
         python examples/hardened_flic_search.py --data fashion --out FOLDER
         python examples/hardened_flic_search.py --table --out FOLDER    runs nothing: the worst of each family so far

A cell is a family of `hardened_flic_attacks.py` and a number of attackers. Its first trials draw the family's numbers, its later
ones vary the worst so far. Loss: the accuracy of loyal clients without the attackers' data (they never answer, FedAvg) minus that
under the defence, mean of the last ten rounds, same seed; "worst client" is that of the loyal client that loses most. Backdoors,
by 4 clients, have their success instead. Every trial is a line in FOLDER/search.jsonl with its numbers, seed and commit; a run
goes on where one stopped.
"""

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import attack_search
import numpy as np
import torch
from hardened_flic_attacks import FAMILIES, ROUNDS

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.data.partition import Iid
from cloister.fl.data.skew import Dirichlet
from cloister.fl.data.source import FashionMnist
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack_metrics import attack_success
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.membership import ALWAYS, Pool

LAST = 10
MAJORITIES, BACKDOORED = (8, 10, 11, 12), 4
DEFENCES = {
    "hardened FLIC": HardenedFLIC(rounds_before=10, every=5),
    "FLIC": FLIC(rounds_before=10),
    "FedAvg": FedAvg(),
}

digits = replace(attack_search.scenario, algorithm=FedAvg(), rounds=ROUNDS)
fashion = replace(
    digits,
    name="Fashion-MNIST",
    data=FashionMnist(),
    partition=Iid(clients=20, samples=100, shared_test=True),
)
SKEWED = {
    "digits": Dirichlet(clients=20, alpha=0.5, shared_test=True),
    "fashion": Dirichlet(clients=20, alpha=0.5, samples=100, shared_test=True),
}


# --- one run ----------------------------------------------------------------------------------------------------------


def played(scenario: Scenario, data: Path | None, backdoor: Backdoor | None = None) -> tuple[dict[int, float], float | None]:
    """The accuracy of every loyal client, mean of the last rounds, and how often a trigger succeeds with them in the end."""
    simulation = Simulation(scenario, data)
    corrupt = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    loyal = [i for i in sorted(simulation.population.clients) if i not in corrupt]
    rows = []
    with np.errstate(all="ignore"):
        for t in range(scenario.rounds):
            with suppress(NothingLearned):  # a lost round is a result
                simulation.step()
            if t >= scenario.rounds - LAST:
                found = simulation.evaluate()
                rows.append([found[i].accuracy if i in found else 0.0 for i in loyal])
    success = None
    if backdoor is not None:
        models = {i: v for i, v in simulation.vectors().items() if i in set(loyal)}
        tests = {i: simulation.population.clients[i].test for i in models}
        success = attack_success(simulation.module, models, tests, backdoor, simulation.population.classes).mean
    return dict(zip(loyal, np.mean(rows, axis=0).tolist(), strict=True)), success


@dataclass
class Search:
    """Trials of one scenario. lines: what was found, of earlier runs too, each on disk as soon as it is there."""

    scenario: Scenario
    label: str
    out: Path
    data: Path | None
    lines: list[dict[str, Any]]
    commit: str

    def trial(self, family: str, count: int, seed: int, trial: int, drawn: int, defence: str) -> None:
        """One run, unless it is done: drawn at random, or near the worst of the cell so far."""
        key = {"scenario": self.label, "family": family, "attackers": count, "seed": seed, "trial": trial, "defence": defence}
        if any(all(line[name] == value for name, value in key.items()) for line in self.lines):
            return
        rng = np.random.default_rng((sorted(FAMILIES).index(family), count, trial))
        before = [line for line in self.cell(family, count, defence) if line["trial"] < trial]
        kind = FAMILIES[family]
        numbers = kind.drawn(rng) if trial < drawn or not before else kind.varied(max(before, key=_harm)["numbers"], rng)
        value = replace(self.scenario, seed=seed, algorithm=DEFENCES[defence], adversary=kind.make(numbers, count))
        backdoor = None if kind.triggered is None else kind.triggered(numbers)
        accuracy, success = played(value, self.data, backdoor)
        absent, clean = self.absent(count, seed, backdoor)
        lost = [absent - a for a in accuracy.values()]
        line = {**key, "numbers": numbers, "loss": float(np.mean(lost)), "worst_client": max(lost), "commit": self.commit}
        self.add(line | ({} if success is None else {"success": success, "clean": clean}))

    def absent(self, count: int, seed: int, backdoor: Backdoor | None) -> tuple[float, float | None]:
        """Accuracy, and success of the trigger, without the attackers' data."""
        key = {"scenario": self.label, "family": "absent", "attackers": count, "seed": seed}
        known = next((line for line in self.lines if all(line.get(k) == v for k, v in key.items())), None)
        if known is None or backdoor is not None:
            value = replace(self.scenario, seed=seed, adversary=Adversary(members=Pool(count), silent=ALWAYS))
            accuracy, success = played(value, self.data, backdoor)
            if known is None:
                mean = float(np.mean(list(accuracy.values())))
                self.add({**key, "trial": 0, "defence": "FedAvg", "accuracy": mean, "commit": self.commit})
            return float(np.mean(list(accuracy.values()))), success
        return float(known["accuracy"]), None

    def cell(self, family: str, count: int, defence: str) -> list[dict[str, Any]]:
        key = {"scenario": self.label, "family": family, "attackers": count, "defence": defence}
        return [line for line in self.lines if all(line[name] == value for name, value in key.items())]

    def add(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        with (self.out / "search.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _harm(line: Mapping[str, Any]) -> float:
    return float(line.get("success", line["loss"]))


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: of each scenario and defence the worst loss of every family, and in brackets that of a single client."""
    said = []
    attacked = [line for line in lines if line["family"] != "absent"]
    for scenario, defence in dict.fromkeys((line["scenario"], line["defence"]) for line in attacked):
        of = [line for line in attacked if (line["scenario"], line["defence"]) == (scenario, defence)]
        counts = sorted({line["attackers"] for line in of})
        seeds, commits = sorted({line["seed"] for line in of}), sorted({line["commit"] for line in of})
        said += [f"{scenario}, {defence}: {len(of)} trials, seeds {', '.join(map(str, seeds))}, commit {', '.join(commits)}", ""]
        said += [
            "| family | " + " | ".join(f"{count} of 20" for count in counts) + " | at |",
            "| --- |" + " --- |" * (len(counts) + 1),
        ]
        for family in dict.fromkeys(line["family"] for line in of):
            cells = [[line for line in of if (line["family"], line["attackers"]) == (family, count)] for count in counts]
            worst = [max(cell, key=_harm) if cell else None for cell in cells]
            texts = ["" if line is None else _text(line) for line in worst]
            most = max((line for line in worst if line is not None), key=_harm)
            at = ", ".join(f"{name} {value:.3g}" for name, value in most["numbers"].items())
            said.append(f"| {family} | " + " | ".join(texts) + f" | {at}; seed {most['seed']} |")
        losses = [line["loss"] for line in of if "success" not in line]
        if len(losses) > 1:
            half = 1.96 * float(np.std(losses, ddof=1)) / np.sqrt(len(losses))
            said += ["", f"mean loss {np.mean(losses):.3f} +- {half:.3f} (95 %), worst {max(losses):.3f}", ""]
    return "\n".join(said)


def _text(line: Mapping[str, Any]) -> str:
    if "success" in line:
        return f"success {line['success']:.3f}, clean {line['clean']:.3f}, loss {line['loss']:+.3f}"
    return f"{line['loss']:+.3f} ({line['worst_client']:+.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="one seed, 12 attackers, two trials of four families")
    parser.add_argument("--data", choices=("digits", "fashion"), default="digits")
    parser.add_argument("--folder", type=Path, help="where data sets are; CLOISTER_DATA if it is left out")
    parser.add_argument("--skew", action="store_true", help="labels dealt by Dirichlet(0.5), tested on all labels")
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33, 34, 35])
    parser.add_argument("--attackers", type=int, nargs="+", default=list(MAJORITIES))
    parser.add_argument("--families", nargs="+", choices=tuple(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--trials", type=int, default=10, help="of each cell; the seeds take turns")
    parser.add_argument("--defences", nargs="+", choices=tuple(DEFENCES), default=["hardened FLIC"])
    parser.add_argument("--table", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "search.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    scenario = {"digits": digits, "fashion": fashion}[arguments.data]
    label = scenario.name + (", Dirichlet(0.5)" if arguments.skew else ", IID")
    scenario = replace(scenario, partition=SKEWED[arguments.data]) if arguments.skew else scenario
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)  # noqa: S607
    search = Search(scenario, label, arguments.out, arguments.folder, lines, found.stdout.strip() or "unknown")
    trials, seeds, families, counts = arguments.trials, arguments.seeds, arguments.families, arguments.attackers
    if arguments.quick:
        trials, seeds, families, counts = 2, seeds[:1], ["minus gradient", "pulses", "votes", "ALIE"], [12]
    for trial in range(0 if arguments.table else trials):
        for family in families:
            for count in [BACKDOORED] if FAMILIES[family].triggered else counts:
                for defence in arguments.defences:
                    search.trial(family, count, seeds[trial % len(seeds)], trial, (trials + 1) // 2, defence)
    print(table(search.lines))


if __name__ == "__main__":
    main()
