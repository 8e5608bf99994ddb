"""What a client's end remembers of words: each is taken once, and what comes again has the answer of before, or none for good."""

from cloister.protocol.links.taken_words import TakenWords
from cloister.protocol.links.words import ANSWER, FORGOTTEN


def test_a_word_that_comes_again_has_the_answer_of_before_until_none_is_due() -> None:
    words = TakenWords(0)
    assert words.again(1, 0) is None  # new
    words.take(1)
    assert words.doing == words.latest == 1
    assert words.again(1, 0) is None  # still worked on
    words.answered(1, b"one")
    assert words.doing is None
    assert words.again(1, 0) == (ANSWER.pack(1), b"one")
    assert words.again(1, 0) == (ANSWER.pack(1), b"one")
    assert words.again(1, 1) == (ANSWER.pack(1 | FORGOTTEN),)


def test_an_older_word_that_is_answered_late_does_not_end_work_on_the_newest() -> None:
    words = TakenWords(0)
    words.take(1)
    words.take(2)
    words.answered(1, b"one")
    assert words.doing == 2
    assert words.again(2, 0) is None
    assert words.again(1, 0) == (ANSWER.pack(1), b"one")


def test_what_an_earlier_life_took_is_not_taken_again() -> None:
    words = TakenWords(5)
    assert words.again(5, 0) == (ANSWER.pack(5 | FORGOTTEN),)
    assert words.again(6, 0) is None
    assert words.doing is None
