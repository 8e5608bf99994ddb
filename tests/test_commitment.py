"""Commitments open to exactly what was committed, and every field counts."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.crypto.commitment import BadCommitment, commit, open_commitment

SALT = bytes(range(32))


@given(st.binary(max_size=100), st.binary(min_size=32, max_size=32), st.binary(max_size=100))
def test_opens_to_what_was_committed(content, salt, context):
    open_commitment(commit(content, salt, context), content, salt, context)


def test_known_answer():
    """SHA-256 of length-prefixed domain and context, salt, content; written out once."""
    domain = b"cloister/v1/commitment"
    written_out = bytes(7) + bytes([22]) + domain + bytes(7) + bytes([3]) + b"ctx" + SALT + b"content"
    assert commit(b"content", SALT, b"ctx") == hashlib.sha256(written_out).digest()


@pytest.mark.parametrize(
    "changed",
    [
        (b"Content", SALT, b"context"),
        (b"content", SALT[:-1] + b"\x00", b"context"),
        (b"content", SALT, b"contexT"),
        (b"content", SALT, b""),
        (b"", SALT, b"context"),
        (b"content\x00", SALT, b"context"),
        (b"content", SALT[:-1], b"context"),
        (SALT[-1:] + b"content", SALT[:-1], b"context"),
    ],
)
def test_opens_to_nothing_else_and_does_not_say_why(changed):
    with pytest.raises(BadCommitment, match=r"^a commitment does not open$"):
        open_commitment(commit(b"content", SALT, b"context"), *changed)


@pytest.mark.parametrize("commitment", [b"", bytes(31), bytes(32), bytes(33)])
def test_a_made_up_commitment_does_not_open(commitment):
    with pytest.raises(BadCommitment):
        open_commitment(commitment, b"content", SALT, b"context")


@given(st.binary(max_size=40), st.integers(0, 40))
def test_parts_cannot_be_moved_between_context_and_content(text, at):
    head, tail = text[:at], text[at:]
    if head:
        assert commit(tail, SALT, head) != commit(head + tail, SALT, b"")
        assert commit(tail, SALT, head) != commit(tail[1:], SALT, head + tail[:1]) or not tail


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_short_salt_is_refused(size):
    with pytest.raises(ValueError, match="32 bytes"):
        commit(b"content", bytes(size), b"context")
