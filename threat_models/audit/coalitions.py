"""Who opens every update by what it holds, alone or together: the clients' shared CKKS key, and both halves of a sharing.

Nobody should alone; who has what is found out by looking, and not by who it should be.
"""

from collections.abc import Iterator

import numpy as np

from ...crypto.additive import AdditiveShare, keyed_share, reveal
from ...crypto.ckks import MOST_DIGITS
from ...protocol.encrypted.keys import KeyName, opened_secret
from ...protocol.encrypted.messages import EncryptedInput, EncryptedSum, EncryptedSumRequest
from ...protocol.encrypted.protection import Encrypted
from ...protocol.encrypted.scaling import RIDING, SCALE
from ...protocol.two_servers.messages import ExplicitShare, KeyShare
from ...protocol.two_servers.protection import TwoServer
from ...protocol.two_servers.terms import ShareTerms
from ...protocol.two_servers.upload import from_words
from ...protocol.view.account import kind_of
from .reading import Instance, messages, sessions
from .view import CorruptView, Matrix


def decrypted(view: CorruptView) -> Iterator[tuple[Instance, Matrix]]:
    """Under `Encrypted`, of whoever has the clients' seed: inputs of sums, under the secret key that is sealed for every client.

    What the client's weight multiplied is divided by the weight that rides along.
    """
    seed = next((held.seed for held in view.held.values() if held.seed), b"")
    if not isinstance(view.public.protection, Encrypted) or not seed:
        return
    tasks = sessions(view)
    asked = {e.session: e.message for _, e in messages(view, EncryptedSumRequest)}
    keys = {}
    for _, envelope in messages(view, EncryptedSum):
        total, digest = envelope.message, envelope.session
        if digest in asked and digest not in keys:
            name = KeyName(total.run, "sums", total.round, total.cluster)
            keys[digest] = opened_secret(seed, name, total.holder, total.public, total.sealed)
    for frame, envelope in messages(view, EncryptedInput):
        request, key = asked.get(envelope.session), keys.get(envelope.session)
        task = None if request is None else tasks.get(request.work)
        if request is None or key is None or task is None:
            continue
        values = key.decrypt(key.read(envelope.message.ciphertexts, request.length + 2)).rounded(MOST_DIGITS)
        if values[-2]:
            found = values[:-2] / (SCALE * values[-2] / RIDING)
            yield (task.round, kind_of(task.work), frame.sender), np.asarray(found, np.float64)


def joined_shares(view: CorruptView) -> Iterator[tuple[Instance, Matrix]]:
    """Under `TwoServer`, of whoever came by both: the first server's share and the second's key add up to the update."""
    how = view.public.protection
    if not isinstance(how, TwoServer):
        return
    terms = ShareTerms(len(view.public.initial), how.k, how.max_norm, how.floor, how.corrupt)
    tasks = sessions(view)
    keys = {(e.session, frame.sender): e.message.key for frame, e in messages(view, KeyShare)}
    for frame, envelope in messages(view, ExplicitShare):
        key, task = keys.get((envelope.session, frame.sender)), tasks.get(envelope.session)
        if key is None or task is None:
            continue
        explicit = from_words(envelope.message.vector)
        steps = reveal(AdditiveShare(0, explicit), keyed_share(key, explicit.shape))
        yield (task.round, kind_of(task.work), frame.sender), np.asarray(steps * terms.step, np.float64)
