"""Who was at a coordinator's links in each round: presence.jsonl of its run folder, a line for each round in which it changed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PRESENCE = "presence.jsonl"


class Presence:
    """Of a run with these clients. Rounds are counted from 0; a life of the coordinator begins with a line of its own."""

    def __init__(self, folder: Path, clients: Sequence[int]) -> None:
        self._path, self._clients = folder / PRESENCE, tuple(clients)
        self._said: tuple[list[int], list[int]] | None = None
        self._unanswered: Mapping[int, int] | None = None

    def round(
        self,
        round: int,
        there: Iterable[int],
        revoked: Iterable[int],
        unanswered: Mapping[int, int],
        begun_with: Mapping[int, int],
    ) -> None:
        """A round is over. there: who is connected. revoked: whose certificate was taken back while this life lasts.

        unanswered: how often each did not answer in time so far; who did not in this round counts as away.
        begun_with: the same as this life of the coordinator began.
        """
        before, self._unanswered = begun_with if self._unanswered is None else self._unanswered, dict(unanswered)
        here = {i for i in there if unanswered.get(i, 0) == before.get(i, 0)}
        now = [i for i in self._clients if i not in here], sorted(set(revoked) & {*self._clients})
        if now != self._said:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"round": round, "away": now[0], "revoked": now[1]}) + "\n")
        self._said = now

    def replayed(self, unanswered: Mapping[int, int]) -> None:
        """A round of before that went through the journal alone, before anybody could be there: what was not answered in it is
        none of the next one's. The life that played it has noted it, or was killed before.
        """
        self._unanswered = dict(unanswered)


def ranges(lines: Sequence[Mapping[str, Any]], rounds: int) -> dict[str, dict[int, list[tuple[int, int]]]]:
    """For "away" and "revoked", by client, the first and last rounds of each time that it was so, of so many rounds."""
    kept: list[Mapping[str, Any]] = []
    for line in lines:
        while kept and int(kept[-1]["round"]) >= int(line["round"]):
            kept.pop()  # a life of the coordinator that was killed played these again
        kept.append(line)
    found: dict[str, dict[int, list[tuple[int, int]]]] = {"away": {}, "revoked": {}}
    for k, line in enumerate(kept):
        first, last = int(line["round"]), (int(kept[k + 1]["round"]) if k + 1 < len(kept) else rounds) - 1
        for what, by in found.items():
            for client in line.get(what) or () if last >= first else ():
                times = by.setdefault(int(client), [])
                if times and times[-1][1] + 1 == first:
                    times[-1] = times[-1][0], last
                else:
                    times.append((first, last))
    return found
