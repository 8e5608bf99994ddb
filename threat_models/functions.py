"""Plain functions and dataclasses as attacks: what they are taken for, and what is said of one that does not fit.

An attack of this package is a dataclass that says what it needs. A function says less: it is taken for an attack on uploads, on
data, on training or on choices by the field of `Adversary` that it is given as, or by the type of its first parameter. What it
returns is checked in every round, and what is wrong is said by its name.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..fl.clients.losses import IGNORED
from ..fl.data.population import Examples
from ..fl.functions import Unfit, as_vector, brief, called, is_function, misfit, name_of, parameters_of
from ..fl.own import is_part_of_ours
from ..protocol.view.answers import Vector
from .handing import handed
from .knowledge import Colluding, Level, Own, forged

LEVELS = {"Own": Level.OWN, "Colluding": Level.COLLUDING, "Omniscient": Level.OMNISCIENT, "Insider": Level.INSIDER}
"""Of an attack on uploads, by the type that it is handed."""


ALONE = "return one vector of that shape, as own.update is"
TOGETHER = "return one vector of that shape for all members, or a mapping, {member: vector}, with one for each"


def alone(attack: object, own: Own, found: Any) -> Vector:
    """What an attack of a member alone returned, as an upload. Raises Unfit, which says where the attack is written."""
    return as_vector(found, own.update.shape, attack, ALONE)


def together(attack: object, coalition: Colluding, found: Any) -> dict[int, Vector]:
    """What an attack of all members returned, as an upload of each: a mapping with one for each, or one vector for all. Raises
    Unfit, which says where the attack is written.
    """
    members = sorted(coalition.own)
    shape = coalition.own[members[0]].update.shape
    if not isinstance(found, Mapping):
        vector = as_vector(found, shape, attack, TOGETHER)
        return {i: vector.copy() for i in members}
    if set(found) != set(members):
        said = f"returned vectors for {brief(list(found))}; the members at work are {members}"
        raise Unfit(f"{called(attack)} {said}; {TOGETHER}")
    return {i: as_vector(found[i], shape, attack, TOGETHER) for i in members}


@dataclass(frozen=True, slots=True)
class UploadFunction:
    """A function as an attack on uploads. It is handed what its level allows, and returns float numbers of the update's shape
    (d,): one vector for all members, or, above Level.OWN, a mapping with one for each.
    """

    function: Callable[[Any], Any]
    needs: Level
    identical: ClassVar[bool] = False

    def __call__(self, known: Any, /) -> Any:
        found = handed(self.function, known)
        return alone(self.function, known, found) if isinstance(known, Own) else together(self.function, known, found)


@dataclass(frozen=True, slots=True)
class DataFunction:
    """A function as a poison of a member's examples: it is handed a `Situation` and returns `Examples`."""

    function: Callable[[Any], Any]

    def __call__(self, situation: Any, /) -> Examples:
        return poisoned_by(self.function, situation)


@dataclass(frozen=True, slots=True)
class TrainingFunction:
    """A function in the place of a member's training: it is handed a `Situation` and returns an update, (d,)."""

    function: Callable[[Any], Any]

    def __call__(self, situation: Any, /) -> Vector:
        found = handed(self.function, situation)
        if isinstance(found, Examples):
            said = f"{called(self.function)} returned Examples and was taken for training; of a poison its type says so: write"
            raise Unfit(f"{said} `-> data.Examples`, or give it as Adversary(data=...)")
        return as_vector(found, situation.start.shape, self.function)


@dataclass(frozen=True, slots=True)
class ChoiceFunction:
    """A function as what a member says serves it best: it is handed an `Offered` and returns a position in its models."""

    function: Callable[[Any], Any]
    needs: Level

    def __call__(self, offered: Any, /) -> int:
        found, count = handed(self.function, offered), len(offered.models)
        if isinstance(found, bool) or not isinstance(found, int | np.integer) or not 0 <= found < count:
            raise Unfit(f"{called(self.function)} returned {brief(found)}; a choice is a whole number from 0 to {count - 1}")
        return int(found)


@dataclass(frozen=True, slots=True)
class OfHonest:
    """An attack that is a function of the honest updates alone, as other libraries' are (ByzFL's `attack(honest_vectors)`).

    function: from float32 (honest, d) to one vector (d,), which all members send; numbers of numpy or torch. told: its
    parameters, by which an evaluation knows its cells from those of the same function with others.
    """

    function: Callable[[NDArray[np.float32]], Any]
    told: str = ""
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise Unfit(f"{brief(self.function)} is no function of the honest updates")
        object.__setattr__(self, "told", self.told or parameters_of(self.function))

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        honest = np.stack(coalition.seen)
        vector = as_vector(self.function(honest), honest[0].shape, self.function)
        return forged(coalition, [vector.copy() for _ in coalition.own])


def as_upload(attack: Any, knows: Level) -> Any:
    """The attack on uploads, a function that does not say what it needs at the level of its parameter, else at `knows`."""
    if attack is None or (hasattr(attack, "needs") and not isinstance(attack, type)):
        return _of_a_level(attack)
    return OfHonest(attack) if _byzfl(attack) else UploadFunction(_function(attack, "known"), _level(attack, knows))


def as_choice(attack: Any, knows: Level) -> Any:
    """The same for an attack on choices."""
    if attack is None or (hasattr(attack, "needs") and not isinstance(attack, type)):
        return _of_a_level(attack)
    return ChoiceFunction(_function(attack, "offered"), knows)


def no_level(attack: Any) -> str:
    """Why what an attack says it needs is no level of knowledge; empty where it is one."""
    needs = getattr(attack, "needs", None)
    levels = ", ".join(f"Level.{level.name}" for level in Level)
    return "" if needs is None or isinstance(needs, int) else f"it says that it needs {needs!r}; that is one of {levels}"


def _of_a_level(attack: Any) -> Any:
    if wrong := no_level(attack):
        raise Unfit(f"attack {called(attack)}: {wrong}")
    return attack


def as_poison(attack: Any) -> Any:
    """The attack on data, a plain function with what it returns checked."""
    return DataFunction(_function(attack, "situation")) if is_function(attack) else attack


def as_training(attack: Any) -> Any:
    """The attack on training, a plain function with what it returns checked."""
    return TrainingFunction(_function(attack, "situation")) if is_function(attack) else attack


def of_others_form(attack: Any) -> str:
    """That a function of the honest updates alone, as ByzFL's attacks are, goes through its adapter; empty of any other."""
    if isinstance(attack, type) or not callable(attack) or isinstance(attack, OfHonest) or any(_types(attack)):
        return ""
    try:
        first = next(iter(inspect.signature(attack).parameters), "")
    except (TypeError, ValueError):
        return ""
    made = name_of(attack) if is_function(attack) else f"{type(attack).__name__}(...)"
    form = f"it takes {first}, as attacks of ByzFL do, and goes through their adapter: attacks.OfHonest({made})"
    return form if first.startswith("honest") else ""


def misplaced(attack: Any, field: str) -> str:
    """That an attack belongs in another field of `Adversary` than this one, by what it is handed; empty where it does not."""
    place = None if attack is None or isinstance(attack, type) else place_of(attack)
    handed = ("data", "local")  # both of a situation: a function need not say which
    alike = field in handed and place in handed and not is_part_of_ours(attack)
    if place is None or place == field or alike or (place, field) in (("upload", "shown"), ("upload", "choice")):
        return ""
    of = {"upload": "uploads", "data": "data", "local": "training", "choice": "choices"}[place]
    return f"{field} is {brief(attack)}, an attack on {of}: give it as {place}=..."


def place_of(attack: Any) -> str | None:
    """The field of `Adversary` that an attack belongs in, by what it says it needs, or by the type of its first parameter and
    of what it returns; None where it says neither, as a function of a strength does not.
    """
    asked, returned = _types(attack)
    if _byzfl(attack) or asked in LEVELS or (hasattr(attack, "needs") and asked not in ("Offered", "OfferedTogether")):
        return "upload"
    if asked in ("Offered", "OfferedTogether"):
        return "choice"
    if asked == "Situation":
        return "data" if returned == "Examples" else "local"
    return None


def _function(attack: Any, given: str) -> Callable[[Any], Any]:
    if isinstance(attack, type):
        raise Unfit(f"{attack.__name__} is a class; make one of it: {attack.__name__}(...)")
    if not callable(attack):
        raise Unfit(f"{brief(attack)} is no attack: it has neither `needs` nor can it be called")
    if other := of_others_form(attack):
        raise Unfit(f"attack {called(attack)} does not fit: {other}")
    if wrong := misfit(attack, [given]):
        raise Unfit(f"attack {called(attack)} does not fit: {wrong}")
    found: Callable[[Any], Any] = attack
    return found


def poisoned_by(attack: Any, situation: Any) -> Examples:
    """What a poison makes of a member's examples. Raises Unfit, by its name, file and line, where none can be trained on."""
    found = handed(attack, situation)
    if not isinstance(found, Examples):
        raise Unfit(f"{called(attack)} returned {brief(found)}; a poison returns Examples(x, y)")
    check_trainable(attack, situation.examples, situation.classes, found)
    return found


def check_trainable(of: object, honest: Examples, classes: int, found: Examples) -> None:
    """Raise Unfit for examples that no model could be trained on or tested with, by the attack's name, file and line."""
    x, y = found.x, found.y
    if len(x) != len(y) or not len(y):
        raise Unfit(f"{called(of)} returned {len(x)} inputs and {len(y)} labels; as many of both, and at least one")
    if x.shape[1:] != honest.x.shape[1:] or y.shape[1:] != honest.y.shape[1:]:
        raise Unfit(
            f"{called(of)} returned inputs of shape {tuple(x.shape[1:])} and labels of shape {tuple(y.shape[1:])}, "
            f"where {tuple(honest.x.shape[1:])} and {tuple(honest.y.shape[1:])} are taken"
        )
    if y.dtype != honest.y.dtype or x.dtype != honest.x.dtype:
        wanted = f"where {honest.x.dtype} and {honest.y.dtype} are taken"
        raise Unfit(f"{called(of)} returned inputs of {x.dtype} and labels of {y.dtype}, {wanted}")
    y = y[y != IGNORED] if y.ndim > 1 and not y.is_floating_point() else y  # without padding
    if len(y) and not y.is_floating_point() and not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise Unfit(f"{called(of)} returned labels from {int(y.min())} to {int(y.max())}; there are {classes}, from 0")


def _byzfl(attack: object) -> bool:
    """Whether it is one of ByzFL's attacks, which are functions of the honest updates."""
    return type(attack).__module__.partition(".")[0] == "byzfl"


def _level(attack: Any, knows: Level) -> Level:
    return LEVELS.get(_types(attack)[0], knows)


def _types(attack: Any) -> tuple[str, str]:
    """The names of the type of the first parameter and of what is returned; empty where nothing is said."""
    if not callable(attack) or isinstance(attack, type):
        return "", ""
    call = attack if is_function(attack) else type(attack).__call__
    try:
        said = inspect.signature(call)
    except (TypeError, ValueError):
        return "", ""
    parameters: Sequence[inspect.Parameter] = [p for p in said.parameters.values() if p.name != "self"]
    return _named(parameters[0].annotation if parameters else None), _named(said.return_annotation)


def _named(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return "" if text == "_empty" else str(text).rpartition(".")[2]
