"""A point of a search in words: who attacks with what, when, and how; numbers as people write them."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import isfinite

from ..threat_models.search.fields import Number, Numbers

AROUND: Mapping[str, str] = {
    "Jittered": "each with noise of its own, {spread} times as long as what it sends",
    "SignBalanced": "turned round, seen from the honest mean, in a random half of the coordinates",
    "Magnified": "what each sends times {factor}",
    "Diminished": "what each sends times {factor}",
    "KernelPoison": "only what the protection's sketch does not see of it",
}
"""What is done to what an attack sends, by the class that does."""
LAYERS = "in the {layer} layer alone, honest work in all others"
WHO: Mapping[str, str] = {
    "most": "by the clients with the most examples",
    "fewest": "by the clients with the fewest examples",
    "oddest": "by the clients with the oddest examples",
    "holders": "by the clients with the most examples of labels 0 and 1",
}
USUAL: Mapping[str, str] = {
    "variant": "as it is",
    "boost": "none",
    "data": "none",
    "layers": "all",
    "votes": "Honest",
    "schedule": "always",
    "samples": "true",
    "which": "any",
}
"""What is not said."""


def said(numbers: Numbers) -> str:
    """A point in words: the attack with its numbers, then what is not as usual."""
    left = {key: value for key, value in numbers.items() if not key.endswith("?")}
    parts = [_made(str(left.pop("attack")), left)]
    for key, words in SAID.items():
        value = str(left.pop(key, USUAL[key]))
        if value != USUAL[key]:
            parts.append(words(value, left))
    return ", ".join([*parts, *(f"{key} {figure(value)}" for key, value in left.items())])


def figure(value: object) -> str:
    """A number with three digits and no power of ten, as far as it can be read: "1,000,000", "0.00032"; a text as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not isfinite(value) or 0 < abs(value) < 1e-6:
        return f"{value:.3g}"
    rounded = value if isinstance(value, int) else float(f"{value:.3g}")
    return f"{rounded:,}" if isinstance(rounded, int) else f"{rounded:,.9f}".rstrip("0").rstrip(".")


def _fields(name: str, left: dict[str, Number]) -> dict[str, str]:
    """What is said of a class, taken out of the rest: a class among it with its own."""
    own = {key.removeprefix(f"{name}."): left.pop(key) for key in [*left] if key.startswith(f"{name}.")}
    found = {}
    while own:
        key = next(iter(own))
        value = own.pop(key)
        found[key] = _made(value, own) if isinstance(value, str) else figure(value)
    return found


def _made(name: str, left: dict[str, Number]) -> str:
    inside = _fields(name, left)
    return f"{name}({', '.join(f'{field} {value}' for field, value in inside.items())})" if inside else name


def _around(name: str, left: dict[str, Number]) -> str:
    inside = _fields(name, left)
    return AROUND[name].format_map(defaultdict(lambda: "so many", inside)) if name in AROUND else name


def _layers(kind: str, left: dict[str, Number]) -> str:
    layer = [value for name in ("InLayer", "LoneInLayer") for value in _fields(name, left).values()]
    return LAYERS.format(layer=next(iter(layer), "last")) if kind == "one" else f"layers {kind}"


def _when(kind: str, left: dict[str, Number]) -> str:
    start = figure(left.pop("schedule.start", 0))
    if kind == "from":
        return f"from round {start} on"
    period = int(left.pop("schedule.period", 2))
    active = max(1, round(float(left.pop("schedule.duty", 1.0)) * (period - 1)))
    return f"in {active} of every {period} rounds, from round {start} on"


def _chosen(which: str, left: dict[str, Number]) -> str:
    first = left.pop("which.first", None)
    return WHO.get(which, which) if first is None else f"by the clients from {first} on, by id"


SAID: Mapping[str, Callable[[str, dict[str, Number]], str]] = {
    "variant": _around,
    "boost": lambda name, left: f"poisoned work times {_fields(name, left).get('factor', name)}",
    "data": lambda name, left: f"on data poisoned by {_made(name, left)}",
    "layers": _layers,
    "votes": lambda name, left: f"votes by {_made(name, left)}",
    "schedule": _when,
    "samples": lambda name, left: f"each claiming {figure(left.pop('samples.factor', name))} times its examples",
    "which": _chosen,
}
"""How each choice is said that is not as usual, by its name in a point."""
