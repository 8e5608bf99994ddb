"""Parts of a scenario from text, `--set protection=Masked(floor=5)`: calls of public names, and nothing else that Python can do.

The text is read as a syntax tree. What may stand in it: a call of a name that `cloister.algorithms`, `attacks`, `data`, `models`,
`partitions`, `protections` or `rules` lists, or of `Training`; such a name itself, where a part takes a class; numbers, texts,
True, False and None; tuples, lists and dicts of all these. Nothing is evaluated.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from .fl.near_names import near

MODULES = ("algorithms", "attacks", "data", "models", "partitions", "protections", "rules")
MOST = 4_000
"""Letters of a text."""


def names() -> dict[str, Any]:
    """All that may be called, by name and by MODULE.name; and of a part other ways to make one, `RecordPrivacy.for_epsilon`."""
    from .fl.clients.training import Training

    found: dict[str, Any] = {"Training": Training}
    for module in MODULES:
        of = import_module(f".{module}", __package__)
        for name in of.__all__:
            part = getattr(of, name)
            ways = {name: part, **ways_to_make(name, part)}
            found |= ways | {f"{module}.{way}": make for way, make in ways.items()}
    return found


def ways_to_make(name: str, part: object) -> dict[str, Any]:
    """The public class methods of a part, by NAME.method."""
    own = vars(part) if inspect.isclass(part) else {}
    return {f"{name}.{way}": getattr(part, way) for way, of in own.items() if isinstance(of, classmethod) and way[0] != "_"}


def tree_of(text: str) -> ast.expr | None:
    """Of a text that calls or names something; None of any other, which may be read in another way. Raises ValueError for one
    that is too long.
    """
    if len(text) > MOST:
        raise ValueError(f"a setting has at most {MOST} letters, not {len(text)}")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return body if any(isinstance(node, ast.Call | ast.Name | ast.Attribute) for node in ast.walk(body)) else None


def made(tree: ast.expr, path: str) -> Any:
    """The value. path: of the setting, which errors name. Raises ValueError of one line."""
    known = names()

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Call(func=func, args=args, keywords=keywords):
                return _called(dotted(func), [read(a) for a in args], {_keyword(k): read(k.value) for k in keywords})
            case ast.Name() | ast.Attribute():
                return found(dotted(node))
            case ast.Tuple(elts=inside):
                return tuple(read(one) for one in inside)
            case ast.List(elts=inside):
                return [read(one) for one in inside]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {read(k): read(v) for k, v in zip(keys, values, strict=True) if k is not None}
            case _:
                try:
                    return ast.literal_eval(node)
                except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                    raise ValueError(f"{path}: {_brief(node)} is no number, text or call of a part of Cloister's") from None

    def dotted(node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=ast.Name() | ast.Attribute() as of, attr=name):
                return f"{dotted(of)}.{name}"
        raise ValueError(f"{path}: {_brief(node)} is no name of a part of Cloister's")

    def found(name: str) -> Any:
        if name not in known:
            meant = near(name, known) or f"; names are those of cloister.{', .'.join(MODULES)}"
            raise ValueError(f"{path}: there is no {name!r}{meant}")
        return known[name]

    def _called(name: str, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        part = found(name)
        if not callable(part):
            raise ValueError(f"{path}: {name} is not to be called")
        try:
            return part(*args, **keywords)
        except TypeError as error:
            raise ValueError(f"{path}: {_mismatch(name, part, args, keywords, error)}") from None
        except (ValueError, ArithmeticError, LookupError, AttributeError, OSError) as error:
            raise ValueError(f"{path}: {' '.join(str(error).split()) or type(error).__name__}") from error

    try:
        return read(tree)
    except RecursionError:
        raise ValueError(f"{path}: calls are nested too deeply") from None


def _keyword(node: ast.keyword) -> str:
    if node.arg is None:
        raise ValueError(f"**{_brief(node.value)} is not read; give each by its name")
    return node.arg


def _mismatch(name: str, part: Callable[..., Any], args: list[Any], keywords: Mapping[str, Any], error: TypeError) -> str:
    """What the call has that the part does not take, and what it takes."""
    try:
        takes = [p for p in inspect.signature(part).parameters if p != "self"]
    except (TypeError, ValueError):
        return f"{name}: {error}"
    wrong = next((key for key in keywords if key not in takes), None)
    if wrong is None:
        return f"{str(error).replace('.__init__()', '')}; it takes {', '.join(takes) or 'nothing'}"
    if other := [way for way, make in ways_to_make(name, part).items() if wrong in inspect.signature(make).parameters]:
        return f"{name} takes no {wrong!r}, and {other[0]} does"
    close = get_close_matches(wrong, takes, 1)
    meant = f"; did you mean {close[0]!r}" if close else ""
    return f"{name} takes no {wrong!r}{meant}; it takes {', '.join(takes) or 'nothing'}"


def _brief(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:40]}..."
