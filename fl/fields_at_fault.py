"""Which field of a scenario an error is about, noted where it passes: who knows the scenario's file says the line."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

NOTED = "field_at_fault"


@contextmanager
def about(field: str) -> Iterator[None]:
    """Note on whatever is raised inside that it is about this field; the innermost note stays. Empty: about none of them, as
    what is wrong in a file of a party's own is not.
    """
    try:
        yield
    except Exception as error:
        if not hasattr(error, NOTED):
            with suppress(AttributeError, TypeError):  # an exception of one's own may take no note, and is raised all the same
                setattr(error, NOTED, field)
        raise


def field_of(error: BaseException) -> str:
    """The field that was noted; empty where none was."""
    return str(getattr(error, NOTED, ""))
