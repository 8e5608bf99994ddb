"""By what other terms than the coordinator's clients took part: other_terms.jsonl of its run folder, a line for each change."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .agreement import PROTECTION, Terms, differences, from_text

OTHER_TERMS = "other_terms.jsonl"
MOST_CHANGES = 64
"""Of a client's terms that are noted in one life of a coordinator: who says something else at every connection fills no disk."""
Fields = Mapping[str, list[str | None]]
log = logging.getLogger("cloister.serving")


class OtherTerms:
    """Of one life of a coordinator, which knows what those before it noted.

    ours: its own terms. round: says which one is played, or is next.
    """

    def __init__(self, folder: Path, ours: Terms, round: Callable[[], int]) -> None:
        self._path, self._ours, self._round = folder / OTHER_TERMS, ours, round
        self._changes = Counter[int]()
        self._known = {client: said[-1][1] for client, said in noted(_lines(self._path)).items()}

    def note(self, client: int, text: str) -> None:
        """Says in the log and in the folder, once for each way, in what a client's scenario differs that is taken all the same.

        text: the client's terms, as its link begins.
        """
        try:
            found = differences(from_text(text), self._ours)
        except ValueError:
            return  # it works by what the coordinator cannot read
        if PROTECTION in found:
            return  # it takes no part, and says so itself
        if found == self._known.get(client, {}) or self._changes[client] == MOST_CHANGES:
            return
        self._changes[client] += 1
        self._known[client] = found
        if found:
            log.warning("another scenario", extra={"client": client, "fields_there_and_here": found})
        else:
            log.info("the agreed scenario again", extra={"client": client})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": self._round(), "client": client, "differs": found}) + "\n")


def noted(lines: list[Mapping[str, Any]]) -> dict[int, list[tuple[int, Fields]]]:
    """By client, since which round in what it differed; nothing where it works by the agreed scenario again. Lines that say
    something else are passed over.
    """
    found: dict[int, list[tuple[int, Fields]]] = {}
    for line in lines:
        with suppress(KeyError, TypeError, ValueError):
            fields = {str(name): [there, here] for name, (there, here) in dict(line["differs"]).items()}
            found.setdefault(int(line["client"]), []).append((int(line["round"]), fields))
    return found


def _lines(path: Path) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line of a life that was killed may be cut off
                found.append(json.loads(line))
    return found
