"""An audit from Python: what the server of the quickstart could find out, alone and with one client.

    python examples/audit_quickstart.py            a smaller quickstart, under a minute
    cloister audit examples/quickstart.py          the whole, with a report

The audit plays the scenario, the same in clear, and runs of the attacker's own. Each attack gets what the observer sent, received
and holds (`CorruptView`), and nothing else; what it finds stands between what published sums alone tell (0) and what the updates
tell (1). A third party's attack is a frozen dataclass with a name, a unit, what it knows beside the view, and a call:
`BiggestCoordinates` guesses of each update the half of its coordinates that are largest.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cloister.scenario_file import load
from cloister.threat_models.audit.estimates import estimates
from cloister.threat_models.audit.experiment import QUICK, Budget, Evidence, Finding
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.truth import Truth
from cloister.threat_models.claims import CLAIMS

scenario = replace(load(str(Path(__file__).with_name("quickstart.py"))), rounds=12)


@dataclass(frozen=True, slots=True)
class BiggestCoordinates:
    """Of each victim's first update, the share of its largest half of coordinates that the attack names."""

    name: str = "largest coordinates"
    unit: str = "share of the largest half that is named"
    side: str = "nothing"
    source: str = "an example"

    def applies(self, evidence: Evidence, /) -> str:
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        guessed = estimates(evidence.view, evidence.prior)
        victims = tuple(
            sorted({i for t, kind, i in truth.updates if (t, kind) == (0, "update")} - evidence.view.observer.clients)
        )
        values = []
        for i in victims:
            true = np.abs(truth.updates[0, "update", i])
            guess = guessed.get((0, "update", i))
            size = rng.random(len(true)) if guess is None else np.abs(guess.vector[: len(true)])
            half = len(true) // 2
            values.append(len({*np.argsort(true)[half:]} & {*np.argsort(size)[half:]}) / (len(true) - half))
        return Finding(victims, np.array(values))


def main() -> None:
    played = [one for one in stages(scenario, [0], None) if isinstance(one, Stage)]
    experiments = (UpdateRecovery(), BiggestCoordinates())
    for row in rows(played, [SERVER_ALONE, server_and(0)], experiments, CLAIMS, QUICK):
        leak = row.leakage
        if leak is None:
            continue
        scale = f"{leak.value:.2f} of the way" if leak.valid else "inconclusive"
        found = f"here {leak.here:.2f}, sums {leak.aggregate:.2f}, all {leak.plain:.2f}"
        print(f"{row.observer:20} {row.experiment:20} {found}: {scale}")
        for one in row.claims:
            print(f"{'':20} {one.verdict}: {one.claim.statement} ({one.witness})")


if __name__ == "__main__":
    main()
