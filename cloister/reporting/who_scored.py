"""Who measured how well clients' models predict, which a page shows, and whether the server was told."""

from .run_data import Run, is_served, was_scored


def told_scores(run: Run) -> bool:
    """Whether the server was told any, in answers of the protocol."""
    return any(answer.get("what") == "scores" for answer in run.answers)


def who_scored(run: Run) -> str:
    """In sentences; empty where nothing was measured."""
    if not was_scored(run):
        return ""
    if told_scores(run):
        return "Clients told the coordinator these figures, as it asked (--ask-scores): they are among what it learned."
    if is_served(run):
        return "The coordinator measured them on the scenario's own data: no client told it any."
    return (
        "The simulation measured them on each client's test records: no message of the protocol tells them to anybody. A deployed"
        " coordinator is told them only where it asks (cloister serve --ask-scores), client by client, and each may decline."
    )
