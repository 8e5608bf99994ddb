"""Labels as people write them: what one that is not known may have meant, and which two differ in spelling alone."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches

HEADLESS = ": is the header missing, a first line with the names?"


def are_no_names(columns: Sequence[str]) -> bool:
    """Whether these are a row of numbers, with a label at most, rather than what columns are called."""
    return len(columns) > 1 and sum(map(is_number, columns)) >= len(columns) - 1


def plain(word: str) -> str:
    """Without what people write differently: case, spaces, hyphens, underscores and full stops."""
    return "".join(letter for letter in word.casefold() if not letter.isspace() and letter not in "-_.")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known one that it is nearest to, or None where it is near to none."""
    by_plain = {plain(one): one for one in reversed(known)}
    found = get_close_matches(plain(word), list(by_plain), 1, 0.75)
    return by_plain[found[0]] if found else None


def check_columns(name: str, wanted: Mapping[str, str | None], there: Sequence[object], by: str) -> None:
    """Raises ValueError of one line where data lack a column; of several first that which is much like one that there is: it is
    misspelt, and the others may be right in other data.

    name: of the data. wanted: by the parameter of the function `by` that names it.
    """
    columns = [str(column) for column in there]
    missing = [(parameter, column) for parameter, column in wanted.items() if column is not None and column not in there]
    if not missing:
        return
    close = {parameter: nearest(str(column), columns) for parameter, column in missing}
    parameter, column = min(missing, key=lambda one: close[one[0]] is None)
    meant = f"; did you mean {close[parameter]!r}" if close[parameter] else ""
    if not meant and are_no_names(columns):
        called = ", ".join(columns[:3]) + (" ..." if len(columns) > 3 else "")
        raise ValueError(f"{name} has no column {column!r}; its columns are called {called}{HEADLESS}")
    raise ValueError(
        f"{name} has no column {column!r}{meant}; it has: {', '.join(columns)}; another is named with"
        f" {by}(..., {parameter}=COLUMN)"
    )


def check_spelling(name: str, labels: Iterable[Hashable], of: Mapping[Hashable, str] | None = None) -> None:
    """Raises ValueError of one line where two labels of more than one letter differ in spelling alone: they would be two classes.

    name: of the data. of: by label a client that has it, for the error; None where all are one's.
    """
    known: dict[str, str] = {}
    for label in sorted({label for label in labels if isinstance(label, str)}):
        if is_number(label):
            continue
        other = known.setdefault(plain(label), label)
        if other != label and len(plain(label)) > 1:
            raise ValueError(
                f"labels {_with_owner(other, of)} and {_with_owner(label, of)} of {name} differ in spelling"
                " alone, and would be two classes: write them alike, or give one another name"
            )


def _with_owner(label: str, of: Mapping[Hashable, str] | None) -> str:
    return f"{label!r}" + (f" (client {of[label]!r})" if of else "")


def is_number(label: str) -> bool:
    """Whether a word is a number."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def said_of_decimals(labels: Iterable[str]) -> str:
    """What is said of labels of which one is a decimal; empty where none is."""
    found = next((label for label in labels if "." in label and is_number(label) and float(label) % 1), "")
    return f"label {found!r} is a decimal, and each is a class of its own: numbers to be predicted are numbers=True" * bool(found)
