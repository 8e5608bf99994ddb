"""What a run has spent of its clients' privacy budgets, as plain JSON values: what a run folder and a report say of it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.core.errors import PAST_BUDGET
from ...protocol.view.noise_free import left_out

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release, Unit


def spent(ledgers: "Mapping[tuple[int, Unit], Ledger]") -> dict[str, Any]:
    """By unit: budget and delta, the worst and the mean epsilon, what it is of, what it leaves out and does not cover, and every
    client's releases. acknowledged: answers without noise about the same data; `beside` says so in a sentence, or is empty.

    Equal releases of a client are written once, with their number. Empty where nothing has noise.
    """
    units = dict.fromkeys(unit for _, unit in ledgers)
    return {unit: _of_unit([ledger for (_, of), ledger in sorted(ledgers.items()) if of == unit]) for unit in units}


def headline(privacy: Mapping[str, Any]) -> dict[str, Any]:
    """The same without the clients."""
    return {unit: {key: value for key, value in of.items() if key != "clients"} for unit, of in privacy.items()}


def ran_out(faults: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of a run's faults, as its folder has them: clients whose budget allowed no more, and the first round; or nothing."""
    past = [fault for fault in faults if PAST_BUDGET in fault["reason"]]
    return {"clients": sorted({f["client"] for f in past}), "round": min(f["round"] for f in past)} if past else {}


def _of_unit(ledgers: "Sequence[Ledger]") -> dict[str, Any]:
    epsilons = {ledger.client: ledger.spent for ledger in ledgers}
    worst = max(epsilons, key=lambda i: epsilons[i])
    first = ledgers[0]
    return {
        "budget": first.budget,
        "delta": first.delta,
        "adjacency": first.adjacency,
        "accountant": next(ledger.bound for ledger in ledgers if ledger.client == worst),
        "of": first.of,
        "acknowledged": list(first.acknowledged),
        "beside": left_out(first.acknowledged),
        "epsilon_worst": epsilons[worst],
        "epsilon_mean": sum(epsilons.values()) / len(epsilons),
        "worst_client": worst,
        "not_covered": list(dict.fromkeys(words for ledger in ledgers for words in ledger.not_covered)),
        "clients": {str(ledger.client): _of_client(ledger, epsilons[ledger.client]) for ledger in ledgers},
    }


def _of_client(ledger: "Ledger", epsilon: float) -> dict[str, Any]:
    times: list[tuple[Release, int]] = []
    for release in ledger.releases:
        known = next((k for k, (other, _) in enumerate(times) if other == release), None)
        if known is None:
            times.append((release, 1))
        else:
            times[known] = (release, times[known][1] + 1)
    releases = [{**release.as_dict(), "times": count} for release, count in times]
    return {"epsilon": epsilon, "releases": releases, "not_covered": list(ledger.not_covered)}
