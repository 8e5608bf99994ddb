"""Words to many: the same bytes and the same envelopes as the codec gives alone, whatever comes between."""

import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.wire.codec import Envelope, decode, encode
from cloister.protocol.wire.messages import MESSAGES, Ready, Task, Upload
from cloister.protocol.wire.recipes import MESSAGES as MODELS
from cloister.protocol.wire.recipes import RoundOver
from cloister.protocol.wire.to_many import ToMany

KINDS = {**MESSAGES, **MODELS}
ROSTER = (0, 5, 23, 24, 255, 256, 70_000)
ONE = Session("upload/update", bytes(16), 1, "0", ROSTER, 1)
OTHER = Session("upload/update", bytes(16), 2, "0", ROSTER, 1)


def task(session: Session, vector: bytes) -> Task:
    return Task(*session.fields, "update", ("public",), vector)


SMALL, LARGE = task(ONE, bytes(40)), task(OTHER, bytes(400_000))
WORDS = [
    *(Envelope(ONE.digest, SERVER, i, SMALL) for i in ROSTER),
    Envelope(ONE.digest, 5, SERVER, Upload(bytes(40), 3)),
    *(Envelope(OTHER.digest, SERVER, i, LARGE) for i in ROSTER),
    Envelope(ONE.digest, SERVER, 5, LARGE),  # the same message in another session
    Envelope(OTHER.digest, -2, 5, LARGE),  # and of another server
    Envelope(OTHER.digest, SERVER, -2, LARGE),
    Envelope(OTHER.digest, SERVER, 5, LARGE),
    *(Envelope(OTHER.digest, SERVER, i, RoundOver(names)) for i in ROSTER for names in ((), ("a",))),
    Envelope(OTHER.digest, SERVER, 0, Ready()),
]


def test_what_it_encodes_and_decodes_is_what_the_codec_does() -> None:
    many = ToMany()
    for word in [*WORDS, *WORDS[::-1], *(w for w in WORDS for _ in range(2))]:
        data = many.encode(word)
        assert data == encode(word)
        assert many.decode(data, word.sender, 1 << 20, KINDS) == word
        assert many.decode(memoryview(data), word.sender, 1 << 20, KINDS) == word


def test_a_word_to_all_is_built_once() -> None:
    many = ToMany()
    built = [many.decode(many.encode(Envelope(ONE.digest, SERVER, i, SMALL)), SERVER, 1 << 20, KINDS).message for i in ROSTER]
    assert all(message is built[0] for message in built)


@pytest.mark.parametrize("word", WORDS[1:9], ids=str)
def test_frames_that_are_nearly_the_last_are_judged_as_the_codec_judges_them(word: Envelope) -> None:
    """Each byte changed, dropped or doubled, of a frame that comes after one that it is like."""
    data, many = encode(word), ToMany()
    spots = {*range(min(len(data), 130)), *range(len(data) - 60, len(data))} if len(data) > 400 else {*range(len(data))}
    for k in spots:
        for other in (
            data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :],
            data[:k] + data[k + 1 :],
            data[: k + 1] + data[k:],
            data[:k],
        ):
            assert many.decode(data, word.sender, 1 << 20, KINDS) == word
            try:
                expected: object = decode(other, word.sender, 1 << 20, KINDS)
            except ProtocolError as error:
                expected = (error.blame, error.reason)
            try:
                found: object = many.decode(other, word.sender, 1 << 20, KINDS)
            except ProtocolError as error:
                found = (error.blame, error.reason)
            assert found == expected, (k, other[:80])


def test_a_word_of_another_link_and_one_that_is_too_long_are_refused_though_they_are_like_the_last() -> None:
    many = ToMany()
    data = many.encode(Envelope(OTHER.digest, SERVER, 5, LARGE))
    many.decode(data, SERVER, 1 << 20, KINDS)
    with pytest.raises(ProtocolError, match="over the limit"):
        many.decode(data, SERVER, 1000, KINDS)
    assert many.decode(data, 7, 1 << 20, KINDS).sender == SERVER  # as the codec does: who carries frames looks at the link
