"""The line of a user's file that gives a field of the scenario, or the setting that did in its place."""

import ast
import linecache
from collections.abc import Mapping, Sequence
from itertools import islice
from types import TracebackType

from .shipped import file_and_name

HOLDERS = ("scenario", "evaluation", "comparison")
"""What a file is asked for where no name is given; the last two hold scenarios."""


def place_of_field(where: str, field: str, settings: Sequence[str]) -> str:
    """ "FILE, line 12", or "--set FIELD=..." where a setting gave it; empty where no file with such a scenario can be read.

    where: FILE[:NAME], of a scenario, or of an evaluation or a comparison, whose scenario's field it is. settings: PATH=VALUE
    each. Of a field that stands for a name at the top of the file, that name's line; of one that is not written there, the
    line of what is.
    """
    for setting in reversed(settings):
        if setting.partition("=")[0].strip().split(".")[0] == field:
            return f"--set {setting}"
    try:
        path, file, name = file_and_name(where)
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    given = _given(tree)
    value = next((given[one] for one in ((name,) if name else HOLDERS) if one in given), None)
    return "" if value is None else f"{file}, line {_at(value, field, given).lineno}"


def line_in_call(place: TracebackType, field: str) -> int | None:
    """The line that gives a field in the call that an error came from, which may go over many; None where the call has no such
    field, or its text cannot be read.
    """
    code = place.tb_frame.f_code
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, place.tb_frame.f_globals)))
    except (SyntaxError, ValueError):
        return None
    line, end_line, column, end_column = next(islice(code.co_positions(), place.tb_lasti // 2, None))
    for one in ast.walk(tree):
        if (
            isinstance(one, ast.Call)
            and (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset) == (line, end_line, column, end_column)
            and (found := _at(one, field, _given(tree))) is not one
        ):
            return found.lineno
    return None


def _given(tree: ast.Module) -> dict[str, ast.expr]:
    """What names at the top of a file are given."""
    return {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name) and one.value is not None
    }


def _at(value: ast.expr, field: str, given: Mapping[str, ast.expr], steps: int = 8) -> ast.expr:
    """Where what is written here gives the field: in itself, in the scenario that it holds, or in what it is a changed copy of.

    steps: how far names are followed, as a file may name things in a circle.
    """
    value = _named(value, given)
    if not isinstance(value, ast.Call) or not steps:
        return value
    own = {keyword.arg: keyword.value for keyword in value.keywords}
    found = own.get(field)
    if isinstance(found, ast.Dict) and len(found.values) == 1:  # a comparison's data: scenarios by name
        found = _at(found.values[0], field, given, steps - 1)
    if found is None and "scenario" in own:
        found = _at(own["scenario"], field, given, steps - 1)
    if found is None and value.args and isinstance(_named(value.args[0], given), ast.Call):  # replace(base, ...)
        found = _at(value.args[0], field, given, steps - 1)
    return value if found is None else _named(found, given)


def _named(value: ast.expr, given: Mapping[str, ast.expr]) -> ast.expr:
    return given.get(value.id, value) if isinstance(value, ast.Name) else value
