"""Finding a scenario, an evaluation or a comparison in a Python file, FILE or FILE:name, with fields set from outside."""

import ast
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.abc import InspectLoader
from inspect import isroutine
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .fl.functions import brief
from .fl.near_names import not_there
from .fl.runs.comparison import Comparison
from .fl.runs.doubted import doubted
from .fl.runs.scenario import NoField, Scenario, changed, described, replaced
from .lines_of_fields import place_of_field
from .parts_from_text import made, names, tree_of
from .protocol.core.errors import Refused
from .reading_a_file import Read, Unbuilt, executed
from .shipped import SHIPPED, file_there
from .threat_models.evaluation import Evaluation
from .threat_models.suites.usual import usual_evaluation
from .user_errors import PREFIX

if TYPE_CHECKING:
    from .threat_models.audit.experiment import Experiment

Value = TypeVar("Value")


def load(where: str) -> Scenario:
    """The scenario that FILE[:name] holds; the default name is `scenario`. Raises ValueError of one line."""
    return _named(where, Scenario, "scenario", "a scenario, for example cloister:quickstart")


def draws_its_model(scenario: Scenario, where: str, settings: Sequence[str]) -> bool:
    """Whether its model is a finished module whose weights are others whenever FILE is read: none of a function's are."""
    model = described(scenario.model)
    if not isinstance(model, dict) or "module" not in model:
        return False
    again = _chosen(*_read(where, Scenario, "scenario", "a scenario"), Scenario, "scenario")
    return bool(described(with_settings(again, settings).model) != model)


def load_evaluation(where: str, settings: Sequence[str] = (), data: Path | None = None) -> Evaluation:
    """The evaluation that FILE[:name] holds; the default name is `evaluation`. Of a file with scenarios alone the usual one of
    the scenario of this name, or, where all of the file is built, of `scenario`. settings: of the scenario, each PATH=VALUE.
    data: the folder of the data sets. Raises ValueError of one line.
    """
    read, name = _read(where, Evaluation, "evaluation", "an evaluation, for example cloister:evaluate_digits")
    scenario = read.holds.get(name or "scenario")
    has_others = bool(read.unbuilt) or any(isinstance(value, Evaluation) for value in read.holds.values())
    if isinstance(scenario, Scenario) and (name or not has_others):
        _note_unbuilt(read)
        return usual_evaluation(with_settings(scenario, settings), data)
    found = _chosen(read, name, Evaluation, "evaluation")
    _note_unbuilt(read)
    _check_changes(found, settings)
    return replace(found, scenario=with_settings(found.scenario, settings))


def _check_changes(evaluation: Evaluation, settings: Sequence[str]) -> None:
    """Raises ValueError for a setting of what an evaluation has of its own in the place of its scenario's."""
    alone = not any(callable(defence) and not hasattr(defence, "init") for defence in evaluation.defences.values())
    own = {
        "algorithm": ("defences", evaluation.defences if alone else {}),
        "protection": ("protections", evaluation.protections),
        "partition": ("partitions", evaluation.partitions),
        "seed": ("seeds", dict.fromkeys(map(str, evaluation.seeds))),
    }
    for setting in settings:
        field = setting.partition("=")[0].partition(".")[0].strip()
        several, names = own.get(field, ("", {}))
        if names:
            instead = "; --seeds changes those" if field == "seed" else ""
            of_its_own = f"{several} of its own in place of the {field}: {', '.join(names)}"
            raise ValueError(f"--set {setting} changes nothing: the evaluation has {of_its_own}{instead}")


def load_comparison(where: str) -> Comparison:
    """The comparison that FILE[:name] holds; the default name is `comparison`. Raises ValueError of one line."""
    return _named(where, Comparison, "comparison", "a comparison, for example cloister:compare_digits")


def load_attack(where: str) -> "Experiment":
    """The attack on privacy that FILE[:name] holds, an `Attack`, a `PropertyInference` or another experiment; the default name is
    `attack`. Raises ValueError of one line.
    """
    from .threat_models.audit.experiment import Experiment

    kind: type[Any] = Experiment  # a protocol, of which isinstance asks what is needed here
    return cast("Experiment", _named(where, kind, "attack", "an attack, for example cloister:audit_with_art"))


def load_poisoning(where: str) -> Any:
    """The attack on the model that FILE[:name] holds: a class, one made of it, or a function; the default name is `attack`.

    Raises ValueError of one line.
    """
    read, name = _read(where, object, "attack", "a file with an attack of yours")
    wanted, inside = name or "attack", read.holds["__name__"]
    own = [key for key, value in read.holds.items() if callable(value) and getattr(value, "__module__", "") == inside]
    if wanted in read.unbuilt:
        raise Unbuilt(read.unbuilt[wanted])
    if wanted not in read.holds:
        name_it = f"; name it: {read.file}:{own[0]}" if own and not name else ""
        raise ValueError(f"{read.file} holds no attack named {wanted!r}; it has: {', '.join(own) or 'none'}{name_it}")
    found = read.holds[wanted]
    if hasattr(found, "sought"):  # an `Attack` of an audit's
        raise ValueError(f"{read.file}: {wanted} is an attack on privacy, not on the model: cloister audit --attack takes it")
    if not callable(found) and not hasattr(found, "make"):
        raise ValueError(f"{read.file}: {wanted} is {brief(found)}, and no attack; give a function or a dataclass with __call__")
    return found


def load_source(source: str, name: str, where: str) -> Scenario:
    """The scenario of this name, or `scenario`, that a file with this source held. It is run, as the file was, but has no
    `__file__`: it was at another place. What it imports is looked for in the working directory, too. where: what errors call it.
    Raises ValueError of one line.
    """
    loader = _Source(source)
    _find_beside(Path("scenario.py"))
    spec = importlib.util.spec_from_loader(f"{PREFIX}recorded", loader)
    if spec is None:
        raise ValueError(f"{where} holds no source")
    try:
        read = executed(spec, loader, where)
    except ValueError as error:
        if isinstance(missing := error.__cause__, ModuleNotFoundError) and missing.name:
            beside = f"{missing.name.partition('.')[0]}.py, as it was then, into this folder"
            raise ValueError(f"{error}; put {beside}: the record has the scenario's file alone") from error
        raise
    return _chosen(read, name, Scenario, "scenario")


class _Source(InspectLoader):
    """Loads a module from its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text


def _named(where: str, kind: type[Value], default: str, wanted: str) -> Value:
    read, name = _read(where, kind, default, wanted)
    found = _chosen(read, name, kind, default)
    _note_unbuilt(read)
    return found


def _note_unbuilt(read: Read) -> None:
    """Warns (Doubt) of what else the file was to hold."""
    for words in dict.fromkeys(read.unbuilt.values()):
        names = [name for name, why in read.unbuilt.items() if why == words]
        are = "is" if len(names) == 1 else "are"
        doubted(f"{', '.join(names)} cannot be built, and {are} left out: {words}")


def _read(where: str, kind: type[Any], default: str, wanted: str) -> tuple[Read, str]:
    """The file of FILE[:name] as it was read, and the name."""
    path, file, name = file_there(where, wanted)
    spec = importlib.util.spec_from_file_location(f"{PREFIX}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file; give a .py file with `{default} = {_called(kind)}(...)`")
    _find_beside(path)
    return executed(spec, spec.loader, file), name


def _find_beside(path: Path) -> None:
    """Lets a file import those beside it, as it may where Python runs it. After all others: `evaluate.py` hides no library."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)


def _chosen(read: Read, name: str, kind: type[Value], default: str) -> Value:
    file, wanted = read.file, name or default
    found = {key: value for key, value in read.holds.items() if isinstance(value, kind) and not isinstance(value, type)}
    if wanted not in found:
        if wanted in read.unbuilt or (read.unbuilt and not found):
            raise Unbuilt(read.unbuilt.get(wanted) or next(iter(read.unbuilt.values())))
        other_than = f"; name it: {file}:{next(iter(found))}" if found and not name else ""
        others = any(isinstance(value, Scenario | Evaluation | Comparison) for value in read.holds.values())
        if file.startswith(f"{SHIPPED}:") and (isroutine(read.holds.get(wanted)) or not others):
            script = file.removeprefix(f"{SHIPPED}:")
            raise ValueError(f"{file} is a script, and holds no {default}: cloister new {script}, then: python {script}.py")
        if wanted in read.holds and not isinstance(read.holds[wanted], Scenario | Evaluation | Comparison):
            where = place_of_field(f"{file}:{wanted}", "", ()) or file
            raise ValueError(f"{where}: {wanted} is {brief(read.holds[wanted])}; give {_called(kind)}(...){other_than}")
        if not found and name and name not in read.holds:
            there = [key for key, value in read.holds.items() if isinstance(value, Scenario | Evaluation | Comparison)]
            raise ValueError(f"{file} holds nothing named {not_there([name], there)}" if there else f"{file} holds no {name!r}")
        of_it = f":{name}" if name else ""
        for other, command in ((Evaluation, "evaluate"), (Comparison, "compare"), (Scenario, "run")):
            it = isinstance(read.holds.get(name), other)
            if it and other is not kind and found:
                said = f"{file}:{name} is {_a(other)}, not {_a(kind)}; play it with: cloister {command} {file}{of_it}"
                raise ValueError(f"{said}; {_a(kind)} there is {file}:{next(iter(found))}")
            if not found and other is not kind and any(isinstance(value, other) for value in read.holds.values()):
                raise ValueError(f"{file} holds {_a(other)}, not {_a(kind)}; play it with: cloister {command} {file}{of_it}")
        hint = other_than + (_of_another_kind(read, kind) if not name else "")
        raise ValueError(f"{file} holds no {default} named {wanted!r}; it has: {', '.join(found) or 'none'}{hint}")
    own = [] if name or not _imported(wanted, found[wanted], read) else [k for k, v in found.items() if not _imported(k, v, read)]
    if own:
        raise ValueError(
            f"{file} has {wanted!r} by an import, and {', '.join(own)} of its own;"
            f" name one of them: {file}:{own[0]}, or {file}:{wanted}"
        )
    return found[wanted]


def _imported(name: str, value: object, read: Read) -> bool:
    """Whether a module that the file imports has this under this name: `from mine import *` brings more than one may think of."""
    others = (vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType))
    return any(of is not read.holds and of.get(name) is value for of in others)


def _of_another_kind(read: Read, kind: type[Any]) -> str:
    """How the evaluation or the comparison is played that a file holds beside what it was to hold."""
    for other, command in ((Evaluation, "evaluate"), (Comparison, "compare")):
        names = [name for name, value in read.holds.items() if isinstance(value, other)]
        if names and other is not kind:
            where = read.file if other.__name__.lower() in names else f"{read.file}:{names[0]}"
            return f"; it holds {_a(other)} too, which is played with: cloister {command} {where}"
    return ""


def _called(kind: type[Any]) -> str:
    """What a user writes to have one."""
    return "Attack" if kind.__name__ == "Experiment" else kind.__name__


def _a(kind: type[Any]) -> str:
    name = _called(kind).lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def with_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """The scenario with every PATH=VALUE applied in order; a value may be a call of a part, Masked(floor=5). One that does not
    fit yet waits for those of other fields: a protection may fit the algorithm alone that is named after it.

    Raises ValueError of one line, or Refused.
    """
    waiting: list[tuple[str, str]] = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes PATH=VALUE, for example training.lr=0.05, not {setting!r}")
        waiting.append((path.strip(), value.strip()))
    while waiting:
        left, failed = list[tuple[str, str]](), dict[str, Exception]()
        for path, value in waiting:
            field = path.partition(".")[0]
            try:
                if field not in failed:
                    scenario = _set(scenario, path, value)
                    continue
            except (ValueError, Refused) as error:
                failed[field] = error
            left.append((path, value))
        if len(left) == len(waiting):
            return _set_together(scenario, left, next(iter(failed.values())))
        waiting = left
    return scenario


def _set_together(scenario: Scenario, settings: Sequence[tuple[str, str]], failed: Exception) -> Scenario:
    """With parts that none of fits what is there, which may fit each other. Raises what is wrong with them then, or else why one
    of them failed by itself.
    """
    parts = {path: tree_of(text) for path, text in settings}
    if len(parts) != len(settings) or len(parts) == 1 or any("." in path or tree is None for path, tree in parts.items()):
        raise failed
    return replace(scenario, **{path: made(tree, path) for path, tree in parts.items() if tree is not None})


def _set(scenario: Scenario, path: str, text: str) -> Any:
    """A part where the text makes or names one and the field holds no text; else as the field's type reads it."""
    tree = None if isinstance(_at(scenario, path), str) else tree_of(text)
    if tree is None or (isinstance(tree, ast.Name) and tree.id not in names()):
        return changed(scenario, path, text)
    return replaced(scenario, path, made(tree, path))


def _at(value: Any, path: str) -> Any:
    """What is there by now; None where the path leads nowhere."""
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def with_fitting_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """The scenario with those settings that it has a field for: one command line for scenarios of several kinds."""
    for setting in settings:
        with suppress(NoField):
            scenario = with_settings(scenario, [setting])
    return scenario
