"""One release a pair: the pairs of a question, played one after another."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ..core.session import Session
from .choices import Distances
from .disclosed import MODELS, answers_in_words, shown_in_words
from .question import Direction, MeasuredDirection, PairQuestion, Released, Reported
from .server import BothAnswered, Pairing, Undecided
from .sessions import Sessions, heard
from .terms import PROTOCOL, PairTerms, terms_of


def by_pair(
    sessions: Sessions,
    round: int,
    question: PairQuestion,
    weights: int,
    begun: Counter[tuple[int, int]],
    met: list[PairTerms],
    lost: list[tuple[int, int]],
) -> Iterator[Direction | MeasuredDirection]:
    """Both directions of every pair that can be decided, as it is played. Fills met, with the terms of those, and lost.

    weights: floats of an embedding model that is exchanged, 0 for none.
    begun: how many sessions of a pair came so far that a client may have answered; counted on. After `answers` of them, or with
    an answer that cannot be used, the pair is lost.
    """
    choice, released, shown, clouds = question.choice, 0, 0, 0
    about: set[int] = set()
    models: set[int] = set()
    try:
        for a, b in question.pairs:
            session = Session(PROTOCOL, sessions.run_id, round, f"{a}-{b}", (a, b), 2)
            terms = terms_of(session, choice, sessions.embedders, weights)
            ended = sessions.play(terms, Pairing(terms, sessions.enrolled))
            done: Mapping[int, Released | Reported] = ended.clouds if isinstance(ended, BothAnswered) else {}
            if isinstance(ended, Undecided):
                sessions.reject(ended.rejected)
                if ended.begun:
                    begun[a, b] += 1
                    if ended.rejected or begun[a, b] >= getattr(choice, "answers", 1):
                        lost.append((a, b))
                    about |= set(ended.answered)
                    released += len(ended.answered) * terms.scalars
            if isinstance(ended, BothAnswered) or ended.begun:
                models |= {a, b}
                shown += 2 * weights
                clouds += 2 * terms.rows * terms.d
            if not done:
                continue
            met.append(terms)
            about |= {a, b}
            released += 2 * terms.scalars
            yield from (heard(i, j, done[i], done[j], question.reference) for i, j in ((a, b), (b, a)))
    finally:  # what was disclosed is entered whatever became of the decision
        if shown:
            sessions.disclose(round, "clients", models, shown, MODELS)
        if models and isinstance(choice, Distances):
            sessions.disclose(round, "clients", models, clouds, shown_in_words(choice))
        if about:
            sessions.disclose(round, "server", about, released, answers_in_words(choice, question.shown))
