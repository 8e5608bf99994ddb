"""Defects that were found in other toolkits' secure aggregation, and that this one must not have. One test each.

Those that concern the masked sum's messages and stages are in test_masked_sum_attacks.py, named there likewise.
"""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest

from cloister.crypto import masks
from cloister.crypto.ckks import SUMS, PublicContext
from cloister.crypto.ckks_contexts import InvalidContext
from cloister.crypto.ckks_secret import SecretContext
from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from .masked_sum_session import Play

ROOT = Path(__file__).parents[1]
LONG = 4096


def inputs_of(play):
    """The masked inputs that the server received, by client."""
    frames = [f for f in play.network.frames if f.kind == "MaskedInput"]
    return {f.sender: np.frombuffer(decode(f.data, f.sender, 1 << 20).message.vector, "<u4") for f in frames}


def test_openfl_one_scalar_masks_a_whole_vector():
    """OpenFL adds one number per pair to every coordinate. Here no two coordinates share a mask."""
    play = Play(3, record=True, length=LONG, vectors={i: np.zeros(LONG, np.uint32) for i in (1, 3, 5)})
    assert play.run()
    for masked in inputs_of(play).values():
        assert len(np.unique(masked)) > LONG - 20


def test_openfl_the_aggregator_reconstructs_every_seed_and_key():
    """The server opens self seeds of survivors and mask keys of the dropped, and of nobody both."""
    play = Play(5, tap=lambda f: [] if f.kind == "MaskedInput" and f.sender == 3 else [f], record=True)
    assert play.run().clients == (1, 5, 7, 9)
    reveals = [decode(f.data, f.sender, 1 << 20).message for f in play.network.frames if f.kind == "Reveal"]
    assert {i for r in reveals for i in r.dropped} == {3}
    assert 3 not in {i for r in reveals for i in r.alive}


@pytest.mark.parametrize("size", [0, 1, 1000, 2**20])
def test_appfl_and_fate_masks_of_floats_leave_large_values_standing_out(size):
    """Gaussian or float masks hide an input only against their own width. Here a masked word is uniform whatever it hides."""
    words = []
    for seed in range(12):
        vectors = {i: np.full(LONG, size if i == 1 else 0, np.uint32) for i in (1, 3, 5)}
        play = Play(3, record=True, length=LONG, seed=seed, vectors=vectors, bits=20, max_weight=1024)
        assert play.run()
        words.append(inputs_of(play)[1])
    counts = np.bincount(np.concatenate(words) >> 24, minlength=256)
    expected = 12 * LONG / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * np.sqrt(2 * 255)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_fed_biomed_keys_are_padded_with_zeros(size):
    """A key that is not 32 bytes is an error, not a weaker key."""
    with pytest.raises(ValueError, match="32 bytes"):
        masks.mask(bytes(size), 8, np.uint32)


def test_nvflare_and_fedml_pickles_on_the_wire():
    """Received bytes are never unpickled (CVE-2026-24186, CVE-2026-5536), and nothing that receives imports a way to."""
    with pytest.raises(ProtocolError):
        decode(pickle.dumps({"vector": [1, 2, 3]}), 1, 1 << 20)
    for path in [*ROOT.glob("protocol/*.py"), *ROOT.glob("crypto/*.py")]:
        names = {
            n.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for n in node.names
        }
        froms = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not (names | froms) & {"pickle", "marshal", "shelve", "dill", "joblib"}, path.name


def test_nvflare_the_server_is_given_a_context_with_the_secret_key():
    """A context for the server is another type, and bytes that bring a key along are refused."""
    secret = SecretContext.generate(SUMS)
    with pytest.raises(InvalidContext):
        PublicContext.from_bytes(secret.secret_bytes(), SUMS)
    assert not hasattr(secret.public(), "decrypt")


def test_fedml_weights_travel_in_the_clear():
    """Under Masked no frame tells a sample count: runs with other counts differ in masked words, and in what follows from sums.

    The sum of the weights and that of their squares are opened first, and name the second session.
    """

    def frames(count):
        heard = []

        def tap(frame):
            heard.append(frame)
            return [frame]

        def work(jobs):
            return ((j.client, LocalWork(np.full(20, 0.25, np.float32), count + j.client)) for j in jobs)

        members = (0, 1, 2, 3)
        view = Masked().open(Setup(bytes(16), np.zeros(20, np.float32), members, work, SimulatedEntropy(5), tap))
        updates = view.train(0, {"a": Assignment(Model("init"), members, members)})["a"]
        view.gram(updates, origin=True)
        view.sums(updates, {"a": Weights(dict.fromkeys(members, 1.0), times_samples=True)})
        second = [at for at, f in enumerate(heard) if f.kind == "Proposal"][len(members)]
        return [(f.kind, f.data) for f in heard[:second]], [f.kind for f in heard[second:]]

    (few, then), (many, later) = frames(10), frames(500)
    assert len(few) == len(many)
    assert {one[0] for one, other in zip(few, many, strict=True) if one != other} == {"MaskedInput"}
    assert then == later
    assert "MaskedInput" in then


def test_sparse_updates_show_where_they_are_zero():
    """Some schemes send only the coordinates that are not zero (arXiv 2508.04285). Here every coordinate is masked."""
    sparse = {i: np.where(np.arange(LONG) % 64 == i, 7, 0).astype(np.uint32) for i in (1, 3, 5)}
    play = Play(3, record=True, length=LONG, vectors=sparse)
    assert play.run()
    for client, masked in inputs_of(play).items():
        assert len(masked) == LONG
        ordered = np.sort(masked / 2**32)
        assert np.abs(ordered - (np.arange(LONG) + 0.5) / LONG).max() < 2 / np.sqrt(LONG), client


def test_masks_can_be_predicted_from_earlier_ones():
    """Sessions of two rounds share no key (arXiv 2410.09676): the same inputs are masked afresh, unrelated to before."""
    one, other = (Play(3, record=True, length=LONG, round=round) for round in (0, 1))
    assert one.run()
    assert other.run()
    for client, masked in inputs_of(one).items():
        difference = (masked - inputs_of(other)[client]).astype(np.uint32)
        assert len(np.unique(difference)) > LONG - 20
