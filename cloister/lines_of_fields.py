"""The line of a scenario's file that gives a field, or the setting that did in its place."""

import ast
from collections.abc import Sequence

from .shipped import file_and_name


def place_of_field(where: str, field: str, settings: Sequence[str]) -> str:
    """ "FILE, line 12", or "--set FIELD=..." where a setting gave it; empty where no file with such a scenario can be read.

    where: FILE[:NAME]. settings: PATH=VALUE each. Of a field that stands for a name at the top of the file, that name's line; of
    one that is not written there, the scenario's.
    """
    for setting in reversed(settings):
        if setting.partition("=")[0].strip().split(".")[0] == field:
            return f"--set {setting}"
    try:
        path, file, name = file_and_name(where)
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    given = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name) and one.value is not None
    }
    value = given.get(name or "scenario")
    if value is None:
        return ""
    line = value.lineno
    if isinstance(value, ast.Call):
        found = next((keyword.value for keyword in value.keywords if keyword.arg == field), None)
        if isinstance(found, ast.Name) and found.id in given:
            found = given[found.id]
        line = line if found is None else found.lineno
    return f"{file}, line {line}"
