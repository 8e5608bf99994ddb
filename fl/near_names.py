"""What was perhaps meant by a name that is not there, in whatever a user's own code raises."""

import builtins
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import FrozenInstanceError
from difflib import get_close_matches

from .other_names import NAMES, absent, said_otherwise
from .own import OURS, is_part_of_ours

IMPORTED = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def meant(error: BaseException) -> str:
    """The end of a sentence, "; did you mean 'update'", for a misspelt name, attribute or import; empty where none is near."""
    if isinstance(error, FrozenInstanceError):
        return "; what is given stays as it is: make a new array of it, mine = -own.update, and return that"
    if isinstance(error, AttributeError) and error.obj is not None:
        return near(error.name or "", dir(error.obj)) or _has(error.obj)
    if isinstance(error, NameError):
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        inside = [] if trace is None else [*trace.tb_frame.f_locals, *trace.tb_frame.f_globals]
        return near(error.name or "", [*inside, *dir(builtins)])
    if isinstance(error, ImportError) and (found := IMPORTED.search(str(error))) is not None:
        return near(found[1], dir(sys.modules.get(found[2])))
    return ""


def _has(of: object) -> str:
    """The names that an object of a dataclass of ours has; empty for any other object."""
    if not is_part_of_ours(of):
        return ""
    return f"; it has {', '.join(name for name in dir(of) if not name.startswith('_'))}"


def near(name: str, known: Iterable[str], others: Mapping[str, tuple[str, ...]] = NAMES, least: float = 0.6) -> str:
    """The same of a name among those that are known, or by what others call it; a name with an underscore is never offered for
    one without. least: how alike, from 0 to 1. others: empty for names that a user gave: nothing of ours goes by them.
    """
    fit = [one for one in known if one.startswith("_") <= name.startswith("_")]
    close = [one for one in fit if _bare(one) == _bare(name)]
    if not close and others and "FedAvg" in fit and (words := absent(name)):
        return f": {words}"
    close = close or [one for one in [said_otherwise(name, fit, others)] if one] or get_close_matches(name, fit, 1, least)
    return f"; did you mean {close[0]!r}" if close else ""


def _bare(name: str) -> str:
    """A name without what is often left out: "multikrum" of "Multi-Krum"."""
    return re.sub(r"[\W_]", "", name).casefold() or name


def not_there(names: Iterable[str], known: Collection[str], others: Mapping[str, tuple[str, ...]] = NAMES) -> str:
    """Names that are not among those that are known, as the end of a sentence: "Loca; did you mean 'LOCAL'; there are: ...".

    others: empty for names that a user gave (`near`).
    """
    wrong = [str(name) for name in names]
    return f"{', '.join(wrong)}{near(wrong[0], known, others)}; there are: {listed(known)}"


def listed(names: Iterable[str]) -> str:
    """Names with commas between them; one that has a comma itself is in quotes."""
    return ", ".join(repr(name) if "," in name else name for name in names)


def in_short(error: BaseException) -> str:
    """An error in one line: what it is, what it says, and what was perhaps meant. Of our own kinds the words say it all."""
    said = " ".join(str(error).split())
    ours = type(error).__module__.partition(".")[0] == OURS
    words = said if said and ours else type(error).__name__ + (f": {said}" if said else "")
    return words + (meant(error) if "did you mean" not in said.lower() else "")
