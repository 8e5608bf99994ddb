"""Who measured how well clients' models predict, which a page shows, and whether the server was told."""

from .run_data import Run, evaluated, is_served, number, scores, was_scored


def told_scores(run: Run) -> bool:
    """Whether the server was told any, in answers of the protocol."""
    return any(answer.get("what") == "scores" for answer in run.answers)


def tellers(run: Run) -> frozenset[str]:
    """Clients that said how well they predict, in some round."""
    return frozenset(str(i) for answer in run.answers if answer.get("what") == "scores" for i in answer.get("about") or ())


def its_own(run: Run) -> int:
    """How many scores of clients and rounds nobody told: the coordinator measured them."""
    told = {
        (number(answer.get("round")), str(i))
        for answer in run.answers
        if answer.get("what") == "scores"
        for i in answer.get("about") or ()
    }
    return sum((float(t), i) not in told for t, line in evaluated(run) for i in scores(run, line))


def who_scored(run: Run) -> str:
    """In sentences; empty where nothing was measured."""
    if not was_scored(run):
        return ""
    if told_scores(run):
        told = "Clients told the coordinator these figures, as it asked: they are among what it learned."
        if not (own := its_own(run)):
            return told
        whose = ", ".join(run.client(i) for i in sorted(tellers(run), key=run.name_of))
        return (
            f"{whose} told the coordinator theirs, as it asked where it lacks the models: they are among what it learned. Others"
            f" ({own} figures) it measured on the scenario's own data, so that they are of other test records, and means are of"
            " both."
        )
    if is_served(run):
        return "The coordinator measured them on the scenario's own data: no client told it any."
    return (
        "The simulation measured them on each client's test records: no message of the protocol tells them to anybody. A deployed"
        " coordinator is told them only where it asks (cloister serve --ask-scores), client by client, and each may decline."
    )
