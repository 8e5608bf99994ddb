"""One release a client: what the server keeps of clients that answer once for all, and the pairs that follow from it."""

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from ..core.session import SERVER, Session
from ..work.uploads import usable
from .choices import ServerSamples
from .disclosed import answers_in_words
from .question import Direction, MeasuredDirection, PairQuestion, Released
from .server import CollectingClouds
from .sessions import Sessions, Trained, direction
from .terms import ONCE, terms_of

UNDER_THE_OTHERS = "samples under the embedding model of the other of a pair that are not finite: either may be to blame"


class KeptClouds:
    """clouds: of clients that have answered. unusable: clients that have answered what cannot be compared: their pairs are lost.

    Neither is asked again. A client from which nothing came is: if it had answered, it sends the same once more.
    """

    def __init__(self) -> None:
        self.clouds: dict[int, Released] = {}
        self.unusable: set[int] = set()

    def directions(
        self, sessions: Sessions, round: int, question: PairQuestion, trained: Trained, lost: list[tuple[int, int]]
    ) -> Iterator[Direction | MeasuredDirection]:
        """Both directions of every pair of which both have answered, now or before. Fills lost."""
        choice = question.choice
        samples = isinstance(choice, ServerSamples)
        trains = isinstance(choice, ServerSamples) and choice.embedding == "exchanged"
        scalars, new = 0, []
        for i in sorted({i for pair in question.pairs for i in pair} - self.clouds.keys() - self.unusable):
            terms = terms_of(Session(ONCE, sessions.run_id, round, f"client {i}", (i,), 1), choice, sessions.embedders, 0)
            ended = sessions.play(terms, CollectingClouds(terms))
            sessions.reject(ended.rejected)
            self.unusable |= set(ended.rejected)
            if i in ended.clouds:
                self.clouds[i] = ended.clouds[i]
                new.append(i)
                scalars += terms.scalars
        if new:
            sessions.disclose(round, "server", new, scalars, answers_in_words(choice, question.shown))
        lost += [pair for pair in question.pairs if self.unusable & set(pair)]
        for a, b in question.pairs:
            if a in self.clouds and b in self.clouds:
                found = [direction(i, j, self.clouds[i], self.clouds[j], question.reference) for i, j in ((a, b), (b, a))]
                if samples:
                    found = [_seen(sessions, of, trained if trains else None) for of in found]
                own = {d.client for d in found if not usable(d.source.ravel())}  # by its own model, or the public one
                others = {d.other for d in found if not usable(d.target.ravel())}
                if not own | others:
                    yield from found
                    continue
                lost.append((a, b))
                if own or not trains:
                    sessions.reject(own or others)
                else:
                    sessions.reject((a, b), UNDER_THE_OTHERS)

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON, and clouds by name."""
        plain = {
            "references": {str(i): cloud.reference for i, cloud in self.clouds.items()},
            "unusable": sorted(self.unusable),
        }
        kept: dict[str, NDArray[Any]] = {}
        for i, cloud in self.clouds.items():
            kept |= {f"pairs own {i}": cloud.own} | ({} if cloud.other is None else {f"pairs other {i}": cloud.other})
        return plain, kept

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        self.clouds = {
            int(i): Released(kept[f"pairs own {i}"], kept.get(f"pairs other {i}"), reference)
            for i, reference in plain["references"].items()
        }
        self.unusable = set(plain.get("unusable", ()))


def _seen(sessions: Sessions, of: Direction, trained: Trained | None) -> Direction:
    """The direction with samples in the place of its clouds embedded by the client's model, or the public one."""
    with sessions.network.timed(SERVER):
        weights = None if trained is None else sessions.embedders.weights_of(trained(of.client))
        source, target = (sessions.embedders.embed_examples(rows, weights) for rows in (of.source, of.target))
    return Direction(of.client, of.other, source, target, of.reference)
