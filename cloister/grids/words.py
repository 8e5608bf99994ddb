"""What a line says of who learned what, in words."""

from collections.abc import Sequence

from ..fl.runs.results_folder import Row


def learned_words(row: Row) -> list[str]:
    """What each party but the clients learned in a run: a sentence each."""
    found = row["learned"].items()
    return [f"{party}: {'; '.join(map(_said, lines)) or 'nothing'}" for party, lines in found if party != "clients"]


def _said(row: Row) -> str:
    return f"{row['words']} ({row['scalars']:,} numbers in {row['times']} answers)"


def names_words(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
