"""Models of which no slot was opened to the end: what clients go by there has learned nothing since."""

from .pauses import model_of_slot
from .run_data import Run, final_clusters, round_of


def shut_to_the_end(run: Run) -> list[str]:
    """A sentence on each model that somebody goes by most at the end, and whose slot stayed shut from some round on."""
    since: dict[str, tuple[int, str]] = {}
    for k, line in enumerate(run.rounds):
        t, shut = int(round_of(line, k)), {model_of_slot(row): str(row.get("why") or "") for row in line.get("below_floor") or ()}
        since = {name: (since.get(name, (t, ""))[0], why) for name, why in shut.items() if name}
    found = []
    for name, members in final_clusters(run).items():
        if name in since and members:
            t, why = since[name]
            who = f"client{'s' * (len(members) > 1)} {', '.join(run.name_of(i) for i in members)}"
            go = "go" if len(members) > 1 else "goes"
            found.append(
                f"{name.capitalize()}, which {who} {go} by, learned nothing from round {t} on: {why or 'its slot stayed shut'}."
            )
    return found
