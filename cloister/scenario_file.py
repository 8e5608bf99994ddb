"""Finding a scenario, an evaluation or a comparison in a Python file, FILE or FILE:name, with fields set from outside."""

import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.abc import InspectLoader, Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from .fl.runs.comparison import Comparison
from .fl.runs.scenario import NoField, Scenario, changed
from .threat_models.evaluation import Evaluation
from .threat_models.suites.usual import usual_evaluation
from .user_errors import PREFIX, in_words

if TYPE_CHECKING:
    from .threat_models.audit.attack import Attack

Value = TypeVar("Value")


def load(where: str) -> Scenario:
    """The scenario that FILE[:name] holds; the default name is `scenario`. Raises ValueError of one line."""
    return _named(where, Scenario, "scenario", "a scenario, for example examples/quickstart.py")


def load_evaluation(where: str, settings: Sequence[str] = (), data: Path | None = None) -> Evaluation:
    """The evaluation that FILE[:name] holds; the default name is `evaluation`. Of a file with scenarios alone the usual one of
    the scenario of this name, or `scenario`. settings: of the scenario, each PATH=VALUE. data: the folder of the data sets.
    Raises ValueError of one line.
    """
    module, file, name = _module_of(where, Evaluation, "evaluation", "an evaluation, for example examples/evaluate_digits.py")
    scenario = vars(module).get(name or "scenario")
    if isinstance(scenario, Scenario) and (name or not any(isinstance(value, Evaluation) for value in vars(module).values())):
        return usual_evaluation(with_settings(scenario, settings), data)
    found = _chosen(module, file, name, Evaluation, "evaluation")
    if found.partitions and any(setting.startswith("partition.") for setting in settings):
        raise ValueError(f"--set cannot change the partition: the evaluation names its own: {', '.join(found.partitions)}")
    return replace(found, scenario=with_settings(found.scenario, settings))


def load_comparison(where: str) -> Comparison:
    """The comparison that FILE[:name] holds; the default name is `comparison`. Raises ValueError of one line."""
    return _named(where, Comparison, "comparison", "a comparison, for example examples/compare_digits.py")


def load_attack(where: str) -> "Attack":
    """The attack on privacy that FILE[:name] holds; the default name is `attack`. Raises ValueError of one line."""
    from .threat_models.audit.attack import Attack

    return _named(where, Attack, "attack", "an attack, for example examples/audit_with_art.py")


def load_source(source: str, name: str, where: str) -> Scenario:
    """The scenario of this name, or `scenario`, that a file with this source held. It is run, as the file was, but has no
    `__file__`: it was at another place. where: what errors call it. Raises ValueError of one line.
    """
    loader = _Source(source)
    spec = importlib.util.spec_from_loader(f"{PREFIX}recorded", loader)
    if spec is None:
        raise ValueError(f"{where} holds no source")
    return _chosen(_executed(spec, loader, where), where, name, Scenario, "scenario")


class _Source(InspectLoader):
    """Loads a module from its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text


def _named(where: str, kind: type[Value], default: str, wanted: str) -> Value:
    module, file, name = _module_of(where, kind, default, wanted)
    return _chosen(module, file, name, kind, default)


def _module_of(where: str, kind: type[Any], default: str, wanted: str) -> tuple[ModuleType, str, str]:
    """The module of FILE[:name], the file and the name."""
    file, _, name = where.partition(":")
    path = Path(file)
    if not path.is_file():
        where_to = (
            "; it is in the project's folder, so run the command there" if file in wanted else f"; give the path of {wanted}"
        )
        raise ValueError(f"there is no file {file} in {Path.cwd()}{where_to}")
    spec = importlib.util.spec_from_file_location(f"{PREFIX}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file; give a .py file with `{default} = {kind.__name__}(...)`")
    return _executed(spec, spec.loader, file), file, name


def _executed(spec: ModuleSpec, loader: Loader, file: str) -> ModuleType:
    """The module. Raises ValueError of one line, whatever its code raises."""
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        loader.exec_module(module)
    except Exception as error:
        raise ValueError(in_words(error, file)) from error
    return module


def _chosen(module: ModuleType, file: str, name: str, kind: type[Value], default: str) -> Value:
    found = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if (name or default) not in found:
        for other, command in ((Scenario, "run"), (Evaluation, "evaluate"), (Comparison, "compare")):
            if not found and other is not kind and any(isinstance(value, other) for value in vars(module).values()):
                raise ValueError(f"{file} holds {_a(other)}, not {_a(kind)}; play it with: cloister {command} {file}")
        raise ValueError(f"{file} holds no {default} named {name or default!r}; it has: {', '.join(found) or 'none'}")
    return found[name or default]


def _a(kind: type[Any]) -> str:
    name = kind.__name__.lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def with_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """The scenario with every PATH=VALUE applied in order. Raises ValueError of one line."""
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes PATH=VALUE, for example training.lr=0.05, not {setting!r}")
        scenario = changed(scenario, path.strip(), value.strip())
    return scenario


def with_fitting_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """The scenario with those settings that it has a field for: one command line for scenarios of several kinds."""
    for setting in settings:
        with suppress(NoField):
            scenario = with_settings(scenario, [setting])
    return scenario
