"""A scenario: everything that makes a run, as one Python value of callables and frozen dataclasses."""

import ast
import hashlib
import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import Enum
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import Any, Generic, Union, get_args, get_origin, get_type_hints

from torch import nn
from torch.nn.parameter import is_lazy
from typing_extensions import TypeVar

from ...crypto.orthonormal import HadamardRotation, SignedPermutation
from ...protocol.core.errors import Refused
from ...protocol.core.link import Tap
from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.protection import Masked
from ...protocol.two_servers.protection import TwoServer
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from ...protocol.view.asks import View
from ...protocol.view.functionality import Functionality
from ...protocol.view.protection import Protection, check_composition
from ..algorithms.algorithm import Algorithm
from ..algorithms.robust_sum import innermost
from ..clients.corruption import Corruption
from ..clients.fast import Fast
from ..clients.training import Executor, Training
from ..data.function import as_data
from ..data.natural import Natural
from ..data.partition import Partition
from ..data.source import Loader
from ..functions import called
from ..models.papers import ModelFactory
from ..other_names import said_otherwise
from ..own import asked, is_own
from ..own_code import coded, digest_of
from ..own_constants import text_of
from ..own_values import codes_later, own_fields, stored_by
from ..robust.function import WRITTEN_SO, FunctionRule
from .noise_check import check_noise, check_training
from .objective_check import check_objective
from .parts_check import check_parts
from .reference_check import check_references

PROTECTIONS: tuple[Protection, ...] = (
    Plain(),
    Permuted(),
    Permuted(SignedPermutation),
    Permuted(HadamardRotation),
    Masked(),
    Masked(keys="run"),
    Encrypted(),
    TwoServer(),
)
"""What an error lists when a protection does not fit an algorithm."""


V = TypeVar("V", bound=View, default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Generic[V]):
    """What a run is made of. Two runs of one scenario on one machine give the same models.

    partition: who gets which examples; by default clients have their own, as the data say. model: a factory, or a module, whose
    weights are then the first ones. rounds: communication rounds. seed: of data, models, sampling and simulated secrets.
    execution: how local training is run. faults: what the network does to messages, or None. arrivals: clients that join later,
    with their round. adversary: who is corrupt and what they do, or None (`threat_models.adversary`). validation: share of each
    client's training data held out, by which it may fall back to a more general model; 0 for none. evaluate_every: rounds between
    evaluations; the last round is always evaluated. device: "cpu" or "cuda".

    That the protection's view answers what the algorithm's asks is told by a type checker too. Raises Refused when it does not,
    or when answers without noise would void the epsilon of noise that does not acknowledge them; ValueError when clients arrive
    at an algorithm that cannot take them in.
    """

    name: str
    data: Loader
    partition: Partition = field(default_factory=Natural)
    model: ModelFactory | nn.Module
    training: Training
    algorithm: Algorithm[V]
    protection: Protection[V]
    rounds: int
    seed: int = 0
    execution: Executor = field(default_factory=Fast)
    faults: Tap | None = None
    arrivals: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    validation: float = 0.0
    evaluate_every: int = 1
    device: str = "cpu"
    adversary: Corruption | None = None

    def __post_init__(self) -> None:
        check_parts(self)
        object.__setattr__(self, "data", as_data(self.data))
        if any(round > 0 for round in self.arrivals.values()) and not hasattr(self.algorithm, "join"):
            raise ValueError(f"{type(self.algorithm).__name__} cannot take clients in later; leave arrivals empty")
        if isinstance(self.protection, Masked | TwoServer | Encrypted) and Functionality.COORDINATES in self.algorithm.needs:
            rule = getattr(self.algorithm, "rule", self.algorithm)
            last = innermost(rule)
            own = isinstance(last, FunctionRule)
            works = (
                f"{called(last.function)} reads whole updates" if own else f"{type(last).__name__} works coordinate by coordinate"
            )
            raise Refused(
                f"{type(self.algorithm).__name__} needs coordinates, which {type(self.protection).__name__} does not give:"
                f" {works}; rules that need inner products alone do its work there: rules.GeometricMedian, rules.MultiKrum,"
                " rules.NNM"
                f"{f'; or {WRITTEN_SO}' if own else ''}; or take Plain"
            )
        remembers = set(self.algorithm.needs) - self.protection.gives == {Functionality.GRAM_REMEMBER}
        can_forget = remembers and getattr(self.algorithm, "remember", False)
        or_else = "algorithm.remember=False, with which no client joins after a split" if can_forget else ""
        check_composition(type(self.algorithm).__name__, self.algorithm.needs, self.protection, PROTECTIONS, or_else)
        if isinstance(self.protection, Encrypted) and getattr(self.algorithm, "by_samples", False):
            raise Refused(
                f"{type(self.algorithm).__name__} weighs clients by their samples, which Encrypted cannot hold against its floor;"
                " set algorithm.by_samples=False, or use Masked or TwoServer"
            )
        if isinstance(self.protection, Masked) and getattr(self.algorithm, "over", "members") == "neighbourhood":
            raise Refused(
                "means over neighbourhoods overlap, and under Masked a client gives its update to sums of the same clients alone;"
                ' set algorithm.over="members"'
            )
        check_noise(self.algorithm, self.protection, self.training.privacy is not None)
        check_references(self.algorithm, self.validation)
        check_training(self.algorithm, self.training, self.execution, self.validation)
        check_objective(self.algorithm, self.training, self.adversary)


class NoField(ValueError):
    """The path of a setting leads nowhere in this scenario."""


def changed(value: Any, path: str, text: str) -> Any:
    """The dataclass with the field at `path` ("training.lr") set from text, read as the field's type.

    Raises ValueError of one line that lists what there is when the path does not exist or the text does not fit.
    """

    def read(owner: Any, name: str) -> Any:
        kind = get_type_hints(type(owner))[name]
        return _read(kind, getattr(owner, name), text, f"{type(owner).__name__}.{name}")

    return _with(value, path, read)


def replaced(value: Any, path: str, new: Any) -> Any:
    """The dataclass with the field at `path` replaced. Raises NoField where there is none."""
    return _with(value, path, lambda owner, name: new)


def _with(value: Any, path: str, new: Callable[[Any, str], Any]) -> Any:
    """new: what is put into the field of this name of its owner."""
    name, _, rest = path.partition(".")
    known = _fields_of(value)
    if name not in known:
        inside = [f"{part}.{name}" for part in known if name in _fields_of(getattr(value, part))]
        close = inside or [ours for ours in (said_otherwise(name, known),) if ours] or get_close_matches(name, known, 1)
        meant = f"; did you mean {close[0]}" if close else ""
        raise NoField(f"no field {name!r} in {type(value).__name__}{meant}; it has: {', '.join(known) or 'none'}")
    return replace(value, **{name: _with(getattr(value, name), rest, new) if rest else new(value, name)})


def _fields_of(value: Any) -> list[str]:
    return [f.name for f in fields(value)] if is_dataclass(value) else []


def _read(kind: Any, old: Any, text: str, where: str) -> Any:
    kinds = list(get_args(kind)) if get_origin(kind) in (Union, types.UnionType) else [kind]
    if type(None) in kinds and text.lower() == "none":
        return None
    for k in kinds:
        try:
            if k is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if k in (int, float, str):
                return k(text)
            if get_origin(k) is tuple:
                value = ast.literal_eval(text)
                return _tuple(k, value if isinstance(value, tuple | list) else (value,))
            if isinstance(old, str):
                return text
        except (ValueError, SyntaxError):
            continue
    if is_dataclass(old):
        inside = ", ".join(f.name for f in fields(old)) or "none"
        kind = type(old).__name__
        raise ValueError(f"{where} is a {kind}; set one of its fields: {inside}; or give another, {kind}(...)")
    raise ValueError(f"{where} cannot be set to {text!r}; it is {old!r}")


def _tuple(kind: Any, value: Any) -> Any:
    """A literal as the declared tuple type. Raises ValueError where it does not fit."""
    inner = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kind = next((k for k in inner if type(value) is k), kind)
    if get_origin(kind) is not tuple:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise ValueError
        return value
    if not isinstance(value, tuple | list):
        raise ValueError
    kinds = [inner[0]] * len(value) if inner[1:] == (Ellipsis,) else inner
    return tuple(_tuple(k, v) for k, v in zip(kinds, value, strict=True))


MOST_DESCRIBED, MANY, LONG, DEEPEST = 20_000, 1000, 10_000, 60
"""Values that are described; items, and characters of a text, above which they are a digest; how deep inside one another."""


def described(value: Any) -> Any:
    """The scenario as plain JSON values, type names included: what a run folder records and a resumed run compares.

    Fields that do not count when values are compared are left out. Functions and classes of a user's own have a digest of their
    code; objects of such classes, and partial functions, what they were made of (`own_fields`).
    """
    return _Described().of(value)


class _Described:
    """What is described, at most MOST_DESCRIBED values of it; within: ids of what it is in, as objects may hold one another."""

    def __init__(self) -> None:
        self.left, self.within = MOST_DESCRIBED, list[int]()
        self.codes: dict[int, str] = {}

    def of(self, value: Any, around: Sequence[types.CodeType] = ()) -> Any:
        """around: codes that may change what is in it."""
        self.left -= 1
        if isinstance(value, float) and not isfinite(value):
            return str(value)  # JSON has no word for it
        if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
            return text_of(value) if isinstance(value, str) and len(value) > LONG else value
        if self.left < 0 or id(value) in self.within or len(self.within) > DEEPEST:
            return "..."
        self.within.append(id(value))
        try:
            return self._compound(value, around)
        except Exception:  # an object of the user's own may raise whatever it is asked
            if not is_own(value):
                raise
            return type(value).__name__
        finally:
            self.within.pop()

    def _compound(self, value: Any, around: Sequence[types.CodeType]) -> Any:
        own = coded(value)
        if own is not None and id(own) not in self.codes:
            self.codes[id(own)] = digest_of(own)  # what was edited is another one
        code = self.codes.get(id(own), "")
        beside = {"its code": code} if code else {}
        if is_dataclass(value) and not isinstance(value, type):
            later = [*around, *codes_later(type(value))] if code else around
            state = {name for of in later for name in stored_by(of)} if code else set()
            counted = [f.name for f in fields(value) if f.compare and f.name not in state]
            return {"type": type(value).__name__, **beside, **{n: self.of(getattr(value, n, None), later) for n in counted}}
        if isinstance(value, nn.Module):
            made = {"made of": self.of(own_fields(value))} if code and own_fields(value) else {}
            return {"type": type(value).__name__, **beside, **made, "module": repr(value), "parameters": _digest(value)}
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._several(value, beside, around)
        if isinstance(value, partial):
            return {"partial": self.of(value.func), "of": self.of([value.args, value.keywords])}
        if text := "" if isinstance(value, type | types.FunctionType) else text_of(value):
            return f"{type(value).__name__} {text}"
        words: str = str(asked(value, "__qualname__") or type(value).__qualname__) + (f", code {code}" if code else "")
        of = getattr(value, "__self__", None) if isinstance(value, types.MethodType) else value
        if own is None or isinstance(of, types.FunctionType) or (of is value and isinstance(of, type)):
            return words
        if of is not value:
            return {"type": words, "of": self.of(of)}
        later = [*around, *codes_later(type(of))]
        held = {name: self.of(one, later) for name, one in own_fields(of, around).items()}
        return {"type": words, "made of": held} if held else words

    def _several(self, value: Any, beside: Mapping[str, str], around: Sequence[types.CodeType]) -> Any:
        found: Any
        if isinstance(value, Mapping):
            found = {str(k): self.of(v, around) for k, v in list(value.items())}
        elif len(value) > MANY and (text := text_of(value)):
            found = text
        elif isinstance(value, set | frozenset):
            found = sorted((self.of(v, around) for v in list(value)), key=lambda one: json.dumps(one, sort_keys=True))
        else:
            found = [self.of(v, around) for v in list(value)]
        return {"type": type(value).__name__, **beside, "items": found} if beside else found


def _digest(module: nn.Module) -> str:
    """SHA-256 of its parameters, and of what it registered as buffers."""
    found = hashlib.sha256()
    for name, parameter in sorted([*module.named_parameters(), *module.named_buffers()], key=lambda one: one[0]):
        found.update(name.encode())
        if is_lazy(parameter):
            continue  # has no weights yet
        found.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
