"""Envelopes under a shared key: they open for the key and context that sealed them, and for nothing else."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from cloister.crypto.envelope import OVERHEAD_BYTES, InvalidSeal, open_sealed, seal

keys = st.binary(min_size=32, max_size=32)


@given(keys, keys, st.binary(max_size=60), st.binary(max_size=20), st.binary(max_size=20), st.data())
def test_an_envelope_opens_for_its_key_and_context_alone(key, other, content, context, elsewhere, data):
    sealed = seal(key, content, context)
    assert len(sealed) == len(content) + OVERHEAD_BYTES
    assert sealed == ChaCha20Poly1305(key).encrypt(bytes(12), content, context)
    assert open_sealed(key, sealed, context) == content
    at = data.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
    wrong = [(key, changed, context), (key, sealed[:-1], context), (key, b"", context)]
    wrong += [(other, sealed, context)] if other != key else []
    wrong += [(key, sealed, elsewhere)] if elsewhere != context else []
    for case in wrong:
        with pytest.raises(InvalidSeal, match="a sealed secret does not open"):
            open_sealed(*case)
