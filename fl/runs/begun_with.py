"""Where the scenario that a run was begun with and the one that it is to go on with differ, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

SHORT = 40
"""Characters of a value that is shown; of longer ones their place alone is said."""


def other_fields(begun: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Fields in which two scenarios differ, as paths with both values, those of a few letters only. Rounds may differ.

    begun, now: as `described`.
    """
    return [words for key in now if key != "rounds" for words in _differing(key, begun.get(key), now[key])]


def _differing(at: str, then: object, now: object) -> Iterator[str]:
    if isinstance(then, Mapping) and isinstance(now, Mapping) and then.keys() == now.keys():
        for key in now:
            yield from _differing(f"{at}.{key}", then[key], now[key])
    elif then != now:
        short = max(len(repr(then)), len(repr(now))) <= SHORT
        yield f"{at} ({then!r}, and {now!r} now)" if short else at
