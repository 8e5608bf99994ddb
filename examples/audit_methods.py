"""What each party can find out, for four methods under every protection and with differential privacy: the headline table.

Each cell is an audit (`cloister audit`) of a small run: 12 clients with Dirichlet(.5) digits for updates, labels and
properties; with 20 records each for membership, and with 4 for images, which such attacks find in clear. Against the server
alone, and against the server with one client. Every number is on the scale from what the published sums alone tell (0) to what
the updates tell in clear (1), but for membership's rate.

    python examples/audit_methods.py --out runs/audit-methods              three seeds; half an hour and more on two cores
    python examples/audit_methods.py --small                               two methods, two protections, one seed
    python examples/audit_methods.py --out runs/audit-methods --table      the table of what is there

What is in the folder is not played again, so that a run that was stopped goes on with the same command.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cloister.auditing.audited import audited
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.population import Client, Population
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.masked.noise import Noise
from cloister.threat_models.audit.experiment import QUICK, Experiment
from cloister.threat_models.audit.images import GradientInversion
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.membership import MembershipInference
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threat_models.audit.permuted import KnownModels
from cloister.threat_models.audit.properties import PropertyInference
from cloister.threat_models.audit.recovery import UpdateRecovery

CLIENTS, ROUNDS = 12, 10
OBSERVERS = (SERVER_ALONE, server_and(0))

METHODS: dict[str, Any] = {
    "FedAvg": FedAvg(by_samples=False),
    "CFL": CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.1), patience=3, by_samples=False, remember=False),
    "FLIC": FLIC(rounds_before=5, by_samples=False),
    "EMD-CFL": EMDCFL(by_samples=False),
}
BY_RECORD = RecordPrivacy(clip=1.0, multiplier=4.0, budget=8.0, delta=1e-5, records=100)
PROTECTIONS: dict[str, tuple[Any, RecordPrivacy | None]] = {
    "Plain": (Plain(), None),
    "Permuted": (Permuted(), None),
    "Masked": (Masked(corrupt=1), None),
    "TwoServer": (TwoServer(k=1024), None),
    "Encrypted": (Encrypted(), None),
    "Plain, DP-SGD": (Plain(), BY_RECORD),
    "Masked, DP-SGD": (Masked(corrupt=1), BY_RECORD),
    "Masked, noisy sums": (Masked(corrupt=1, noise=Noise(epsilon=8.0, delta=1e-3, rounds=ROUNDS, l2=1.0)), None),
}


@dataclass(frozen=True, slots=True)
class FewRecords:
    """Dirichlet's clients with so many records each, for an attack that cannot read more out of an update."""

    base: Dirichlet
    records: int

    def __call__(self, source: Any, rng: Any, /) -> Population:
        whole = self.base(source, rng)
        clients = {i: Client(i, c.train.take(_first(self.records)), c.test) for i, c in whole.clients.items()}
        return replace(whole, clients=clients)


def _first(count: int) -> Any:
    import torch

    return torch.arange(count)


def wide(method: str, protection: str) -> Scenario:
    """Where updates, labels and membership are sought."""
    shown, privacy = PROTECTIONS[protection]
    batch = 32 if privacy is None else 50
    return Scenario(
        name=f"{method} under {protection}",
        data=Digits(),
        partition=Dirichlet(clients=CLIENTS, alpha=0.5),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=3, batch=batch, lr=0.1, privacy=privacy),
        algorithm=METHODS[method],
        protection=shown,
        rounds=ROUNDS,
        validation=0.1 if method == "EMD-CFL" else 0.0,
    )


def few(method: str, protection: str) -> Scenario:
    """Where images are sought: two rounds of one step on four records."""
    base = wide(method, protection)
    partition = FewRecords(Dirichlet(clients=CLIENTS, alpha=0.5), 4)
    training = replace(base.training, epochs=1, batch=4)
    algorithm = FLIC(rounds_before=1, by_samples=False) if method == "FLIC" else base.algorithm
    return replace(base, partition=partition, training=training, rounds=2, algorithm=algorithm, validation=0.0)


def learned_by_heart(method: str, protection: str) -> Scenario:
    """Where membership is sought: two rounds in which 20 records are trained on often."""
    base = wide(method, protection)
    partition = FewRecords(Dirichlet(clients=CLIENTS, alpha=0.5, shared_test=True), 20)
    often = replace(base.training, epochs=20, batch=10, lr=0.3)
    with_noise = replace(base.training, epochs=10)  # more steps, or smaller batches, would cost more than the budget
    training = often if base.training.privacy is None else with_noise
    algorithm = FLIC(rounds_before=1, by_samples=False) if method == "FLIC" else base.algorithm
    return replace(base, partition=partition, training=training, rounds=2, algorithm=algorithm)


KINDS = {"wide": wide, "few": few, "by heart": learned_by_heart}
SOUGHT: dict[str, tuple[Experiment, ...]] = {
    "wide": (UpdateRecovery(), KnownModels(), LabelInference(), PropertyInference()),
    "few": (GradientInversion(),),
    "by heart": (MembershipInference(),),
}


def cells(small: bool) -> Iterator[tuple[str, str, str]]:
    """(what is sought, method, protection)."""
    methods = ["FedAvg", "CFL"] if small else [*METHODS]
    protections = ["Plain", "Masked"] if small else [*PROTECTIONS]
    for protection in protections:
        for method in methods:
            yield "wide", method, protection
            yield "by heart", method, protection
            if method != "EMD-CFL":  # which cannot hold out a share of four records
                yield "few", method, protection


def played(kind: str, method: str, protection: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """One cell: rows of its audit, or the reason why there is none."""
    try:
        scenario = KINDS[kind](method, protection)
        found = audited(scenario, QUICK, seeds, None, quiet=True, against=OBSERVERS, experiments=SOUGHT[kind])
        return {"rows": found["rows"]}
    except (Refused, ValueError) as error:
        return {"reason": str(error)}


def line(found: Mapping[str, Any], observer: str, experiment: str) -> str:
    """A cell of the table."""
    row = next((r for r in found.get("rows", ()) if (r["observer"], r["experiment"]) == (observer, experiment)), None)
    if row is None or row["leakage"] is None:
        return "-"
    leak = row["leakage"]
    words = f"{max(0.0, leak['value']):.2f} [{max(0.0, leak['low']):.2f}, {max(0.0, leak['high']):.2f}]" if leak["valid"] else "?"
    if experiment == "membership" and "here" in row["told"]:
        rate = row["told"]["here"]["rates"][0]
        words += f"; {100 * rate['value']:.0f} % at 1 %"
    if "median PSNR, dB" in row.get("figures", {}):
        words += f"; {row['figures']['median PSNR, dB']:.0f} dB"
    return words


def table(found: Mapping[tuple[str, str, str], Mapping[str, Any]], small: bool) -> Iterator[str]:
    """Markdown, a block for each observer."""
    for observer in OBSERVERS:
        yield f"\n**Against the {observer.name}**\n"
        yield "| protection | method | updates | with released models | labels | property | membership | images |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        pairs = dict.fromkeys((protection, method) for _, method, protection in cells(small))
        for protection, method in pairs:
            cell, images, members = (found.get((kind, method, protection), {}) for kind in ("wide", "few", "by heart"))
            if "reason" in cell:
                yield f"| {protection} | {method} | refused: {cell['reason'].split(';')[0]} | | | | | |"
                continue
            parts = [line(cell, observer.name, e) for e in ("updates", "permutation", "labels", "property")]
            parts += [line(members, observer.name, "membership"), line(images, observer.name, "images")]
            yield f"| {protection} | {method} | {' | '.join(parts)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--table", action="store_true", help="play nothing")
    how = parser.parse_args()
    seeds = (0,) if how.small else tuple(how.seeds)
    found: dict[tuple[str, str, str], Any] = {}
    file = None if how.out is None else how.out / "cells.jsonl"
    if file is not None and file.exists():
        for text in file.read_text().splitlines():
            one = json.loads(text)
            found[one["kind"], one["method"], one["protection"]] = one
    for kind, method, protection in cells(how.small):
        if how.table or (kind, method, protection) in found:
            continue
        found[kind, method, protection] = played(kind, method, protection, seeds)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as lines:
                place = {"kind": kind, "method": method, "protection": protection, "seeds": seeds}
                lines.write(json.dumps(place | found[kind, method, protection]) + "\n")
    print("\n".join(table(found, how.small)))


if __name__ == "__main__":
    main()
