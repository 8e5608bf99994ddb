"""Errors of a user's own file: where in it, and what was perhaps meant."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import TracebackType
from typing import Any

from .fl import near_names
from .fl.fields_at_fault import field_of
from .fl.other_names import BELONG, EXAMPLES, FIELDS, LOADERS, said_otherwise
from .fl.own import is_own
from .lines_of_fields import line_in_call
from .protocol.core.errors import Refused

PARTS = ("algorithms", "attacks", "data", "models", "partitions", "protections", "rules", "threats")
"""Modules of ours that a scenario takes its parts from."""
PREFIX = "cloister_scenario_"
"""Of the names of modules that are users' files."""


def in_words(error: BaseException, file: str) -> str:
    """An error that a user's file raised, as one line: file, line, what, and what was perhaps meant."""
    line = error.lineno if isinstance(error, SyntaxError) else line_of(error)
    where = file if line is None else f"{file}, line {line}"
    reason = error.msg if isinstance(error, SyntaxError) else next(iter(str(error).splitlines()), "")
    if isinstance(error, TypeError | AttributeError | OverflowError) and (words := _of_a_field(error)):
        return f"{where}: {words}"
    ours = type(error).__module__.startswith("cloister.")
    said = type(error) is ValueError or ours or isinstance(error, ImportError | Refused)  # the words say it all
    kind = "" if reason and said else f"{type(error).__name__}: "
    if isinstance(error, KeyError):
        reason = f"there is no {reason}"
    return f"{where}: {kind}{reason}{meant(error)}"


def _of_a_field(error: BaseException) -> str:
    """What is wrong with a field of a part of ours that was being built; empty where that is not why it failed. The part that
    was asked for comes first: what it makes of its fields has names that its user does not know.
    """
    from .fl.field_types import wrong_types

    places = _places(error.__traceback__)
    built = (one.tb_frame.f_locals.get("self") for one in places if one.tb_frame.f_code.co_name == "__post_init__")
    return next((words for part in built for words in wrong_types(part, type(part).__name__)), "")


def line_of(error: BaseException) -> int | None:
    """The last line of a user's file that it passed, or, of what was built there over many lines, that of the field that it is
    about; None where it passed none.
    """
    places = list(_places(error.__traceback__))
    found = [place for place in places if _users(place)]
    if not found:
        return None
    built = any(place.tb_frame.f_code.co_name == "__post_init__" for place in places)
    field = field_of(error) if built else ""
    return (line_in_call(found[-1], field) if field else None) or found[-1].tb_lineno


def file_of(error: BaseException) -> str | None:
    """The file that raised it, if that is a user's; None where something else did."""
    places = list(_places(error.__traceback__))
    last = next((place for place in reversed(places) if _users(place)), None)
    if last is None:
        return None
    after = places[places.index(last) + 1 :]
    ours = any(str(place.tb_frame.f_globals.get("__name__", "")).startswith("cloister.") for place in after)
    return None if ours else last.tb_frame.f_code.co_filename


def meant(error: BaseException) -> str:
    """What was perhaps meant instead, as the end of a sentence; empty where nothing is like it."""
    if like := _in_a_part(error) or near_names.meant(error):
        return like
    if found := re.search(r"(\w+)\.__init__\(\) ", str(error)):
        return meant_of(_class_named(found[1], error.__traceback__), str(error))
    return _of_a_loader(error)


def meant_of(of: Any, said: str) -> str:
    """The same of a class that was made with other arguments than its fields; of None, of whose class the name alone is known.

    said: what Python says of it.
    """
    known = _fields(of)
    if found := re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", said):
        like = (
            BELONG.get((found[1], found[2]), "")
            or _meant_field(found[2], known)
            or _elsewhere(found[1], found[2])
            or near_names.near(found[2], known)
        )
        return like + (f"; {found[1]} takes {', '.join(known)}" if known else "")
    if found := re.search(r"(\w+)\.__init__\(\) takes (?:\d+|from \d+ to \d+) positional arguments? but", said):
        return f"; name what you give: {found[1]}({known[0]}=...); it takes {', '.join(known)}" if known else ""
    if found := re.search(r"(\w+)\.__init__\(\) missing \d+ required .*argument", said):
        example = next((f", for instance {field}={held}" for field, held in EXAMPLES.items() if f"'{field}'" in said), "")
        return f"{example}; {found[1]} takes {', '.join(known)}" if known else ""
    return ""


def _of_a_loader(error: BaseException) -> str:
    """How a function of ours for own data is called, where it was called otherwise; empty of other errors."""
    found = re.match(r"(from_\w+)\(\) (?:missing|takes|got) ", str(error)) if isinstance(error, TypeError) else None
    loader = getattr(import_module(f"{__package__}.data"), found[1], None) if found else None
    if found is None or loader is None:
        return ""
    takes = signature(loader).parameters
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    like = near_names.near(wrong[1], takes) or _meant_field(wrong[1], takes, LOADERS) if wrong else ""
    bare = [given.replace(annotation=Parameter.empty) for given in takes.values()]
    return f"{like}; it is data.{found[1]}{Signature(bare)}"


def _meant_field(name: str, takes: Iterable[str], others: Mapping[str, tuple[str, ...]] = FIELDS) -> str:
    """What others call what is taken, as the end of a sentence; empty where nobody calls it so."""
    ours = said_otherwise(name, takes, others)
    return f"; did you mean {ours!r}" if ours else ""


def _in_a_part(error: BaseException) -> str:
    """The module of ours that has what was looked for in the package itself, or in one of its others; empty where none has."""
    package = __name__.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(f"{package}."):
        return near_names.near(error.name or "", [f"{package}.{part}" for part in PARTS])
    found = near_names.IMPORTED.search(str(error)) if isinstance(error, ImportError) else None
    wanted, where = (found[1], found[2]) if found else ("", "")
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == package:
        wanted, where = error.name or "", package
    if where.partition(".")[0] != package or where.removeprefix(f"{package}.") in PARTS:
        return ""
    there = [part for part in PARTS if wanted in vars(import_module(f"{package}.{part}")).get("__all__", ())]
    return f"; it is {there[0]}.{wanted}: from {package} import {there[0]}" if there else ""


def _fields(of: Any) -> list[str]:
    return [field.name for field in fields(of)] if is_dataclass(of) else []


def _elsewhere(owner: str, name: str) -> str:
    """The part of a scenario whose field a name is that was given to the scenario itself; empty where it is none's."""
    if owner != "Scenario":
        return ""
    from .fl.algorithms.fedavg import FedAvg
    from .fl.clients.training import Training
    from .fl.data.partition import Iid

    for part, of in {"training": Training, "algorithm": FedAvg, "partition": Iid}.items():
        known = _fields(of)
        if field := name if name in known else said_otherwise(name, known):
            return f"; it belongs to the {part}, {of.__name__}({field}=...)"
    return ""


def _class_named(name: str, trace: TracebackType | None) -> Any:
    """A class of this name that the file has, by itself or in a module."""
    for place in _places(trace):
        for value in [*place.tb_frame.f_globals.values()]:
            for found in (value, getattr(value, name, None)):
                if isinstance(found, type) and found.__name__ == name:
                    return found
    return None


def _places(trace: TracebackType | None) -> Iterable[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _users(place: TracebackType) -> bool:
    """Whether it is in a scenario's file, or in a module or package beside it, which it may import by name."""
    name = str(place.tb_frame.f_globals.get("__name__", ""))
    if name.startswith(PREFIX):
        return True
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    if top is None or file is None or name == "__main__" or not is_own(top):
        return False
    path = Path(file).resolve()
    beside = path.parents[path.name == "__init__.py"]
    scenarios = [getattr(module, "__file__", None) for other, module in sys.modules.items() if other.startswith(PREFIX)]
    return any(Path(one).resolve().parent == beside for one in scenarios if one)
