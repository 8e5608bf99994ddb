"""The first sentence about privacy in a run's report: who saw what, at most."""

from .run_data import Run, number

IN_CLEAR = {
    "Plain": "The server saw every update in clear.",
    "Permuted": (
        "The server saw every update, its coordinates mixed by a secret of the clients: obfuscation, which known values or"
        " released models undo."
    ),
}


def smallest_sum(run: Run) -> int | None:
    """Fewest clients whose updates are in one sum or mean that anybody was told; None where nobody was told any."""
    return min((len(entry.get("about") or ()) for entry in run.answers if entry.get("what") == "sums"), default=None)


def comparisons(run: Run) -> int:
    """How often the server was told how updates compare."""
    return sum(entry.get("recipient") == "server" and str(entry.get("what")).startswith("gram") for entry in run.answers)


def privacy_in_words(run: Run) -> str:
    """Who saw what, whether there is an epsilon, and that the rest is said below; empty for a run of which nothing is known."""
    if not run.answers:
        return ""
    protection, least, compared = str(run.summary.get("protection") or _type(run)), smallest_sum(run), comparisons(run)
    parts = [IN_CLEAR.get(protection, "Nobody but a client itself saw its update in clear.")]
    if protection not in IN_CLEAR:
        if least is not None:
            parts.append(f"The smallest sum that anybody was told is over {least} client{'s' * (least != 1)}.")
        if compared:
            parts.append(f"The server was told {compared} time{'s' * (compared != 1)} how alike updates are.")
    epsilons = [
        f"{number(of.get('epsilon_worst')):.3g} for any {unit}" for unit, of in run.privacy.items() if isinstance(of, dict)
    ]
    parts.append(
        f"Differential privacy: epsilon {', '.join(epsilons)}, of what is said below." if epsilons else "No differential privacy."
    )
    return " ".join(parts)


def _type(run: Run) -> str:
    protection = run.scenario.get("protection")
    return str(protection.get("type", "")) if isinstance(protection, dict) else ""
