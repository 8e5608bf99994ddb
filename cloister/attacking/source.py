"""A scenario as a Python file that `cloister run` plays: what the search found, to be replayed and looked at."""

import json
import site
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import Any

from ..fl.runs.scenario import Scenario
from ..threat_models.search.play import Try
from ..user_errors import PREFIX
from .replaying import named_from_here
from .workers import Origin

REPLAYING = "cloister.attacking.replaying"
"""Where what such a file calls is."""


class Unwritable(ValueError):
    """A value that cannot be written as an expression of what can be imported."""


def scenario_source(scenario: Scenario, about: str, origin: Origin | None, point: Try | None = None) -> str:
    """The text of the file. about: its docstring. origin: where the scenario comes from; None where Python made it. point: that
    it was found at.

    The file stands alone where the scenario is made of what can be imported. Where parts of it are the user's own, it looks for
    the file that they are in (`replaying.found_in`), and makes the attack by the point where that is one. Raises Unwritable.
    """
    imports: set[tuple[str, str]] = set()
    about = about.replace("\\", "\\\\").replace('"""', "'''")
    try:
        given = [f for f in fields(scenario) if not _usual(f, getattr(scenario, f.name))]
        lines = [f"    {f.name}={expression(getattr(scenario, f.name), imports)},\n" for f in given]
        made = f"{_imported(type(scenario), imports)}(\n{''.join(lines)})"
    except Unwritable:
        if origin is None:
            raise
        imports, made = _loaded(scenario, origin, point)
    return f'"""{about}\n"""\n\n{_imports(imports)}\n\nscenario = {made}\n'


def _loaded(scenario: Scenario, origin: Origin, point: Try | None) -> tuple[set[tuple[str, str]], str]:
    """An expression that loads the file that a scenario is of, and what it needs."""
    imports: set[tuple[str, str]] = set()
    where = ", ".join([_looked_for(origin.where, imports), *map(repr, (origin.against, origin.settings, origin.partition))])
    try:
        needed = {("dataclasses", "replace"), ("cloister.attacking.defence", "subject_of"), *imports}
        adversary = expression(scenario.adversary, needed)
        base = f"subject_of(\n        {where},\n    ).scenario"
        return needed, f"replace(\n    {base},\n    seed={scenario.seed},\n    adversary={adversary},\n)"
    except Unwritable:
        if point is None:
            raise
        imports.add((REPLAYING, "replayed"))
        only = "".join(f"{_looked_for(name, imports)}, " for name in origin.only)
        words = f"    only=({only}),\n    knows={origin.knows.name!r},\n    fixed={origin.fixed!r},\n"
        at = f"    numbers={dict(point.numbers)!r},\n    attackers={point.attackers},\n    seed={point.seed},\n"
        return imports, f"replayed(\n    ({where}),\n{words}{at})"


def _looked_for(where: str, imports: set[tuple[str, str]]) -> str:
    """An expression for FILE[:NAME], which is looked for when the file is read; anything else as it is."""
    if (named := named_from_here(where)) is None:
        return repr(where)
    imports.add((REPLAYING, "found_in"))
    return f"found_in({named[0]!r}, {named[1]!r}, __name__)"


def expression(value: Any, imports: set[tuple[str, str]]) -> str:
    """The value as an expression; what it needs is added to `imports`, as (module, name). Raises Unwritable."""
    if value is None or (isinstance(value, bool | int | bytes) and not isinstance(value, Enum)):
        return repr(value)
    if isinstance(value, str) and not isinstance(value, Enum):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'float("{value}")'
    if isinstance(value, Enum):
        return f"{_imported(type(value), imports)}.{value.name}"
    if isinstance(value, tuple):
        inner = ", ".join(expression(v, imports) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list | frozenset | set):
        inner = ", ".join(expression(v, imports) for v in (value if isinstance(value, list) else sorted(value)))
        return f"[{inner}]" if isinstance(value, list) else f"{type(value).__name__}([{inner}])"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{expression(k, imports)}: {expression(v, imports)}" for k, v in value.items()) + "}"
    if isinstance(value, type | FunctionType):
        return _imported(value, imports)
    if is_dataclass(value):
        given = [f for f in fields(value) if f.init and not _usual(f, getattr(value, f.name))]
        inner = ", ".join(f"{f.name}={expression(getattr(value, f.name), imports)}" for f in given)
        return f"{_imported(type(value), imports)}({inner})"
    raise Unwritable(f"{type(value).__name__} is not written")


def _usual(field: Field[Any], value: Any) -> bool:
    default = field.default if field.default is not MISSING else None
    if field.default_factory is not MISSING:
        default = field.default_factory()
    elif field.default is MISSING:
        return False
    return type(default) is type(value) and bool(default == value)


def _imported(value: Any, imports: set[tuple[str, str]]) -> str:
    module, name = value.__module__, value.__qualname__
    if module.startswith(PREFIX) or module == "__main__" or "<" in name or "." in name or not _is_installed(module):
        raise Unwritable(f"{module}.{name} cannot be imported")
    if module != "builtins":
        imports.add((module, name))
    return str(name)


def _is_installed(module: str) -> bool:
    """Whether a module is found from wherever a file is read: not one that lies beside the user's own."""
    top = module.partition(".")[0]
    if top == __package__.partition(".")[0] or top in sys.stdlib_module_names:
        return True
    places = {*sysconfig.get_paths().values(), *site.getsitepackages()}
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and any(Path(file).is_relative_to(place) for place in places)


def _imports(found: set[tuple[str, str]]) -> str:
    by: dict[str, set[str]] = {}
    for module, name in found:
        by.setdefault(module, set()).add(name)
    return "\n".join(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(by.items()))
