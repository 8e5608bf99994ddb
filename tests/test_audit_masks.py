"""An audit takes updates off what the server was sent, and tests what is left: masks that fail are found, sound ones are not."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.auditing.first_words import headline
from cloister.crypto import additive, ckks, ckks_secret
from cloister.crypto.ckks_parameters import CkksParameters
from cloister.crypto.masks import add_masks, mask
from cloister.crypto.offset_sketch import OffsetSketch
from cloister.fl.runs.lost_round import NothingLearned
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.encrypted import messages as encrypted
from cloister.protocol.masked import client as clients
from cloister.protocol.masked.messages import MaskedInput, Proposal
from cloister.protocol.masked.noise import Noise
from cloister.protocol.masked.terms import Plan, sign_of
from cloister.protocol.work.sketch_keys import RatchetedKeys
from cloister.threat_models.audit.added_words import Added, _windows, added
from cloister.threat_models.audit.ckks import shown_key
from cloister.threat_models.audit.experiment import QUICK, Examined
from cloister.threat_models.audit.masks import LEVEL, AddedWords, examined
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, named, server_and
from cloister.threat_models.audit.reading import messages
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.word_tests import KINDS, _kinds, unlikely
from cloister.threat_models.audit.words import Words, repeated, uneven
from cloister.threat_models.claims import CLAIMS

Patch = pytest.MonkeyPatch
MASKED, SHARED = protections.Masked(corrupt=1), protections.TwoServer()


def small(protection: Any, seed: int = 0, clients: int = 8, **more: Any) -> Scenario:
    plain = Scenario(
        name="small",
        data=data.Digits(),
        partition=partitions.Dirichlet(clients=clients, alpha=0.5),
        model=models.Mlp(hidden=(8,)),
        training=Training(epochs=1, batch=64, lr=0.1),
        algorithm=algorithms.FedAvg(by_samples=False),
        protection=protection,
        rounds=4,
        seed=seed,
    )
    return replace(plain, **more)


def played(scenario: Scenario) -> Recorder:
    recorder = Recorder(scenario, None)
    with suppress(NothingLearned):
        list(recorder.rounds())
    return recorder


def seen(scenario: Scenario) -> Added:
    """By the server alone; the words themselves, not held against keys."""
    recorder = played(scenario)
    return replace(added(recorder.seen_by(SERVER_ALONE), recorder.truth), wrong=())


def seen_by_coalitions(scenario: Scenario) -> list[Added]:
    """By the server alone, with one client, and with two."""
    recorder = played(scenario)
    return [added(recorder.seen_by(o), recorder.truth) for o in (SERVER_ALONE, server_and(0), server_and(0, 1))]


def verdict_of(scenario: Scenario) -> Examined:
    return examined(seen(scenario))


# --- masks that fail ------------------------------------------------------------------------------------------------------------


def bent(f: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Of every mask what f leaves of it, at clients and at the server."""

    def add(total: Any, keys: Any) -> None:
        for key, sign in list(keys):
            m = f(mask(key, len(total), total.dtype.type))
            (np.add if sign == 1 else np.subtract)(total, m, out=total)

    return lambda patch: patch.setattr("cloister.protocol.masked.terms.add_masks", add)


def without(where: Callable[[int], slice]) -> Callable[[Any], Any]:
    """A mask that is 0 at some coordinates."""

    def f(m: Any) -> Any:
        m[where(len(m))] = 0
        return m

    return f


def bare(bits: int) -> Callable[[Any], Any]:
    return lambda m: m & ~m.dtype.type(2**bits - 1)


def left(bits: int) -> Callable[[Any], Any]:
    return lambda m: m & m.dtype.type(2**bits - 1)


def narrow(m: Any) -> Any:
    """Gaussian, and far from filling the ring."""
    drawn = np.random.default_rng(m[:8].astype(np.uint64)).standard_normal(len(m))
    return np.rint(drawn * 2.0**22).astype(np.int64).astype(m.dtype)


def key(*words: object) -> bytes:
    return hashlib.sha256(repr(words).encode()).digest()


def rekeyed(patch: Patch, own: Callable[[Plan, int], bytes | None], pair: Callable[[Plan, int, int], bytes | None]) -> None:
    """Self masks and masks of pairs under other keys; None: there is no such mask."""
    shipped, now = clients._mask, dict[str, Any]()

    def _mask(state: Any, vector: Any) -> Any:
        me, plan = state.idle.me, state.plan
        both = [(own(plan, me), 1), *((pair(plan, min(me, i), max(me, i)), sign_of(me, i)) for i in state.masking)]
        now["keys"] = [(k, sign) for k, sign in both if k is not None]
        return shipped(state, vector)

    def masked(vector: Any, keys: Any) -> Any:
        list(keys)
        total = vector.copy()
        for one in now["keys"]:
            add_masks(total, [one])
        return total

    def several(total: Any, keys: Any) -> None:
        for one in list(keys):
            if one[0] != bytes(32):
                add_masks(total, [one])

    patch.setattr(clients, "_mask", _mask)
    patch.setattr(clients, "masked", masked)
    patch.setattr(Plan, "self_mask_key", lambda plan, client, seed: own(plan, client) or bytes(32))
    patch.setattr("cloister.protocol.masked.terms.add_masks", several)


def again(period: Callable[[int], int]) -> Callable[[Patch], None]:
    """Masks that do not depend on the session, but on what `period` makes of its round."""

    def own(plan: Plan, client: int) -> bytes:
        return key("own", client, period(plan.session.round))

    return lambda patch: rekeyed(patch, own, lambda plan, a, b: key("pair", a, b, period(plan.session.round)))


def one_for_all(patch: Patch) -> None:
    rekeyed(patch, lambda plan, client: key(plan.binding), lambda plan, a, b: None)


def in_pairs(patch: Patch) -> None:
    rekeyed(patch, lambda plan, client: None, lambda plan, a, b: key(plan.binding, a) if a ^ 1 == b else None)


def without_self(patch: Patch) -> None:
    rekeyed(patch, lambda plan, client: None, lambda plan, a, b: key(plan.binding, a, b))


def one_client(patch: Patch) -> None:
    def own(plan: Plan, client: int) -> bytes | None:
        return key(plan.binding, client) if client else None

    rekeyed(patch, own, lambda plan, a, b: key(plan.binding, a, b) if a else None)


def beside(patch: Patch) -> None:
    """The input itself behind the masked one, in the same message."""
    shipped = clients._mask

    def _mask(state: Any, vector: Any) -> Any:
        state, (*before, sent) = shipped(state, vector)
        both = MaskedInput(bytes(sent.envelope.message.vector) + vector.tobytes())
        return state, (*before, replace(sent, envelope=replace(sent.envelope, message=both)))

    patch.setattr(clients, "_mask", _mask)


MASKS: Mapping[str, Callable[[Patch], None]] = {
    "none": bent(without(lambda n: slice(n))),
    "on 1 %": bent(without(lambda n: slice(n // 100, n))),
    "on all but 1 %": bent(without(lambda n: slice(n // 100))),
    "on half": bent(without(lambda n: slice(n // 2, n))),
    "on every other": bent(without(lambda n: slice(0, n, 2))),
    "on the first layer": bent(without(lambda n: slice(n - 90, n))),
    "on the last layer": bent(without(lambda n: slice(n - 91))),
    **{f"low {b} bits bare": bent(bare(b)) for b in (1, 8, 11, 20, 26, 31)},
    **{f"low {b} bits alone": bent(left(b)) for b in (8, 16, 24)},
    **{f"period {p}": bent(lambda m, p=p: np.resize(m[:p], len(m))) for p in (1, 4, 16, 64, 256)},
    "narrow": bent(narrow),
    "one for all": one_for_all,
    "in pairs": in_pairs,
    "no self mask": without_self,
    "not on one client": one_client,
    "the same in all rounds": again(lambda t: 0),
    "the same in two rounds": again(lambda t: t // 2),
    "the same in every second round": again(lambda t: t % 2),
    "beside a copy": beside,
}


@pytest.mark.trains
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.long
def test_masks_that_fail_are_found(name: str, monkeypatch: Patch) -> None:
    MASKS[name](monkeypatch)
    found = verdict_of(small(MASKED))
    assert found.witness


def stretched(f: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Of the share of the second server what f leaves of it."""
    shipped = additive._uniform

    def uniform(key: bytes, *shape: int) -> Any:
        return f(shipped(key, *shape).reshape(-1).copy()).reshape(shape)

    return lambda patch: patch.setattr(additive, "_uniform", uniform)


def one_key(patch: Patch) -> None:
    shipped = additive._uniform
    patch.setattr(additive, "_uniform", lambda key, *shape: shipped(bytes(32), *shape))


SHARES: Mapping[str, Callable[[Patch], None]] = {
    "none": stretched(lambda m: m * np.uint64(0)),
    "on 1 %": stretched(without(lambda n: slice(n // 100, n))),
    "on half": stretched(without(lambda n: slice(n // 2, n))),
    **{f"low {b} bits bare": stretched(bare(b)) for b in (1, 11, 32, 40, 63)},
    **{f"low {b} bits alone": stretched(left(b)) for b in (32, 56)},
    **{f"period {p}": stretched(lambda m, p=p: np.resize(m[:p], len(m))) for p in (4, 64)},
    "one key": one_key,
}


@pytest.mark.trains
@pytest.mark.parametrize("name", SHARES)
def test_shares_that_fail_are_found(name: str, monkeypatch: Patch) -> None:
    SHARES[name](monkeypatch)
    assert verdict_of(small(SHARED)).witness


def no_offset(patch: Patch) -> None:
    patch.setattr(OffsetSketch, "part", lambda one, context: replace(one, offset=np.zeros(one.k, np.uint64)))


def one_offset(patch: Patch) -> None:
    patch.setattr(RatchetedKeys, "key", lambda keys, session: b"k" * 32)


SKETCHED = {
    "algorithm": algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=2.0, eps2=1e-3), patience=1),
    "partition": partitions.LabelSwap(clients=12, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
}


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("broken", [no_offset, one_offset], ids=["none", "the same in all rounds"])
def test_offsets_of_sketches_that_fail_are_found(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    assert "offset of sketches" in verdict_of(small(MASKED, **SKETCHED)).witness


# --- sound ones -----------------------------------------------------------------------------------------------------------------

SOUND: Mapping[str, Callable[[int], Scenario]] = {
    "all with all": lambda seed: small(MASKED, seed),
    "sparse": lambda seed: small(protections.Masked(corrupt=0), seed, 40, rounds=1),
    "64 bits": lambda seed: small(protections.Masked(corrupt=1, ring_bits=64), seed),
    "by samples": lambda seed: small(
        protections.Masked(corrupt=1, max_samples=100),
        seed,
        algorithm=algorithms.FedAvg(by_samples=True),
        partition=partitions.Iid(clients=16),
        rounds=2,
    ),
    "half take part": lambda seed: small(MASKED, seed, 16, algorithm=algorithms.FedAvg(by_samples=False, participation=0.5)),
    "dropouts": lambda seed: small(protections.Masked(), seed, 12, faults=Dropouts(tuple(range(12)), 1, seed)),
    "compared": lambda seed: small(MASKED, seed, **SKETCHED),
    "two servers": lambda seed: small(SHARED, seed),
}


@pytest.mark.trains
@pytest.mark.parametrize("name", SOUND)
@pytest.mark.long
def test_sound_words_are_not_flagged(name: str) -> None:
    for found in seen_by_coalitions(SOUND[name](0)):
        assert found.uploads > 0
        assert not found.missed
        assert not examined(found).witness


@pytest.mark.trains
@pytest.mark.parametrize("name", SOUND)
@pytest.mark.long
def test_what_is_taken_off_is_what_went_in(name: str, monkeypatch: Patch) -> None:
    """Where nothing is added, nothing is left: of updates, of the counts beside them, and of weights summed before."""
    bent(without(lambda n: slice(n)))(monkeypatch)
    stretched(without(lambda n: slice(n)))(monkeypatch)
    found = seen(SOUND[name](0))
    assert not found.missed
    raw = [one for one in found.words if one.bits > 8 and "unopened" not in one.names[0]]
    assert raw
    assert not any(one.table.any() for one in raw)
    if name == "by samples":
        assert {one.names[0] for one in found.words} >= {"client 0's mask on counts of round 0", "client 0's mask of round 0"}


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", range(1, 20))
def test_sound_words_are_not_flagged_in_other_runs(name: str, seed: int) -> None:
    assert not any(examined(found).witness for found in seen_by_coalitions(SOUND[name](seed)))


@pytest.mark.trains
def test_a_sum_of_forty_has_a_sparse_graph() -> None:
    recorder = played(replace(SOUND["sparse"](0), rounds=1))
    proposals = [e.message for _, e in messages(recorder.seen_by(SERVER_ALONE), Proposal)]
    assert {p.neighbours < len(p.roster) - 1 for p in proposals} == {True}


# --- verdicts -------------------------------------------------------------------------------------------------------------------


def row_of(scenario: Scenario, observer: Any = SERVER_ALONE) -> Any:
    played = [one for one in stages(scenario, [scenario.seed], None) if isinstance(one, Stage)]
    (row,) = [row for row in rows(played, [observer], [AddedWords()], CLAIMS, QUICK) if row.experiment == "masks"]
    return row


@pytest.mark.trains
@pytest.mark.parametrize("broken", [False, True])
def test_a_witness_refutes_whatever_leaks(broken: bool, monkeypatch: Patch) -> None:
    if broken:
        one_client(monkeypatch)
    row = row_of(small(MASKED, rounds=2))
    assert row.leakage is None
    assert [(j.claim.id, j.verdict) for j in row.claims] == [("masked.masks.server", "refuted" if broken else "not refuted")]
    assert row.as_dict()["tested"]
    if broken:
        assert "client 0's mask of round 0 is 0 in" in row.claims[0].witness


def of_server(experiment: str, verdict: str, count: int = 1, **more: bool) -> dict[str, object]:
    """A row of an audit, as far as its first words read it."""
    claims = [{"whose": "Cloister", "verdict": verdict}] * count
    return {"observer": "server", "reason": "", "experiment": experiment, "leakage": None, "claims": claims, **more}


def test_attacks_were_not_in_vain_where_not_all_was_read() -> None:
    def said(verdict: str) -> str:
        rows = [of_server(AddedWords().name, verdict, tested=True), of_server("updates", "not refuted", 2)]
        return headline({"rows": rows})

    assert said("not refuted") == (
        "3 of 3 claims were tested and none is refuted (2 were attacked in vain where the attack works in clear, 1 passed tests"
        " of all that was sent)."
    )
    assert "vain" not in said("not covered")
    alone = of_server(AddedWords().name, "not refuted", tested=True)
    words = "The one claim was tested and is not refuted (1 passed tests of all that was sent)."
    assert headline({"rows": [alone]}) == words, "it counted 0 attacks in vain"
    assert "2 were not refuted by attacks that work in clear and did not read all that was sent" in said("not covered")


@pytest.mark.trains
def test_an_input_with_noise_inside_is_not_covered() -> None:
    noise = Noise(epsilon=8, delta=1e-5, rounds=2, l2=1.0)
    row = row_of(small(protections.Masked(noise=noise), rounds=1, clients=12))
    assert [j.verdict for j in row.claims] == ["not covered"]
    assert "12 inputs with noise inside" in row.claims[0].witness


@pytest.mark.trains
def test_slots_are_counted_as_not_looked_at() -> None:
    found = verdict_of(small(MASKED, clients=12, rounds=1, algorithm=algorithms.IFCA(models=2)))
    assert "slots" in found.missed
    assert not found.witness


def test_a_run_without_masks_or_another_observer_is_not_tested() -> None:
    class Of:
        def __init__(self, protection: Any, observer: Any) -> None:
            self.view = self
            self.public, self.observer, self.protection = self, observer, protection

    assert AddedWords().applies(Of(protections.Plain(), SERVER_ALONE))  # type: ignore[arg-type]
    assert "what the server was sent" in AddedWords().applies(Of(MASKED, NETWORK))  # type: ignore[arg-type]
    assert "what the server was sent" in AddedWords().applies(Of(SHARED, named("second server+client:0")))  # type: ignore[arg-type]
    for observer in (SERVER_ALONE, server_and(0), server_and(0, 1)):
        assert not AddedWords().applies(Of(SHARED, observer))  # type: ignore[arg-type]


@pytest.mark.trains
def test_a_message_that_carries_more_than_its_words_is_named(monkeypatch: Patch) -> None:
    beside(monkeypatch)
    found = verdict_of(small(MASKED, rounds=1))
    assert found.witness.startswith("a message that carries more than its words: client ")


# --- tests of words -------------------------------------------------------------------------------------------------------------


def words(table: Any, clients: int = 4) -> Words:
    table = np.asarray(table)
    names = tuple(f"upload {k}" for k in range(len(table)))
    return Words(table, 8 * table.itemsize, np.arange(table.shape[1]), names, tuple(k % clients for k in range(len(table))))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (3, 3), (40, 3), (24, 1000), (300, 64)])
def test_uniform_words_are_not_flagged(dtype: Any, shape: tuple[int, int]) -> None:
    for seed in range(5):
        drawn = np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        assert unlikely(words(drawn), LEVEL) == []


def test_kinds_of_tests_are_as_many_as_share_the_level() -> None:
    assert len(list(_kinds(words(np.zeros((3, 200), np.uint32))))) == KINDS


def test_bounds_are_no_less_than_chances() -> None:
    binom, poisson = stats.binom, stats.poisson
    for n in (1, 5, 40, 1000):
        ones = np.arange(n + 1)
        far = np.maximum(ones, n - ones)
        exact = np.minimum(2 * binom.sf(far - 1, n, 0.5), 1)
        assert (np.exp(uneven(ones, n)) >= exact * (1 - 1e-9)).all()
    assert float(uneven(np.array([0]), 40)[0]) == pytest.approx(-39 * np.log(2))
    for expected in (1e-4, 0.5, 20.0):
        counts = np.arange(1, 60)
        assert (np.exp(repeated(counts, expected)) >= poisson.sf(counts - 1, expected) * (1 - 1e-9)).all()


@pytest.mark.parametrize("upload", [1, 7])
def test_one_pair_that_shares_a_few_words_is_named(upload: int) -> None:
    table = np.random.default_rng(0).integers(0, 2**32, (30, 500), np.uint32)
    table[upload, :12] = -table[20, :12]
    assert any(f"upload {upload} and upload 20 share 12 of 500" in w.words for w in unlikely(words(table), LEVEL))


def test_two_uploads_that_share_low_bits_are_named() -> None:
    table = np.random.default_rng(0).integers(0, 2**32, (30, 500), np.uint32)
    table[3] = (table[3] & ~np.uint32(255)) | (table[9] & np.uint32(255))
    assert any(w.words.startswith("upload 3 and upload 9, bit ") for w in unlikely(words(table), LEVEL))


def test_what_is_bare_in_one_window_of_one_upload_is_named() -> None:
    table = np.random.default_rng(0).integers(0, 2**64, (30, 640), np.uint64)
    table[5, 128:192] &= ~np.uint64(2**20 - 1)
    assert any(w.words.startswith("upload 5, coordinates 128 to 191, ") for w in unlikely(words(table), LEVEL))


def test_a_relation_of_three_uploads_is_named() -> None:
    """Masks in arithmetic progression: each two are independent."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**32, (30, 500), np.uint32)
    table[9] = 2 * table[4] + table[11] * 3 + table[2]
    (found,) = unlikely(words(table), LEVEL)
    assert found.words.startswith("upload 2, upload 9, upload 11 add up to an even number at 500 of 500 coordinates")


def test_a_linear_congruential_keystream_is_found() -> None:
    table = np.zeros((20, 600), np.uint32)
    table[:, 0] = np.random.default_rng(0).integers(0, 2**32, 20)
    for k in range(1, 600):
        table[:, k] = table[:, k - 1] * np.uint32(1664525) + np.uint32(1013904223)
    assert any("coordinates on" in w.words for w in unlikely(words(table), LEVEL))


@pytest.mark.trains
def test_what_is_bare_between_windows_is_seen(monkeypatch: Patch) -> None:
    monkeypatch.setattr("cloister.threat_models.audit.added_words.MOST_WORDS", 1)
    bent(without(lambda n: slice(200, 204)))(monkeypatch)
    found = seen(small(MASKED, rounds=1))
    assert found.sampled
    assert "is 0 in 4 of 611 words" in examined(found).witness


def test_many_uploads_are_sampled_and_that_is_said(monkeypatch: Patch) -> None:
    assert "evenly chosen" in examined(Added((), 5, 50, True)).looked
    assert examined(Added((), 0, 0, False)).missed == "no masked upload was there"
    assert len(_windows(10**6, 100)) * 100 <= 2**22 + 100 * 64
    assert _windows(10**6, 100)[-1] == 10**6 - 1
    assert _windows(130, 10).tolist() == list(range(130))


# --- a key in the open ----------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_a_secret_key_in_a_public_one_refutes(monkeypatch: Patch) -> None:
    """Of a run whose clients send it, and do not look."""
    shipped, wider = ckks.serialised, 10**7

    def serialised(context: Any, *, products: bool) -> bytes:
        return bytes(context.serialize(True, True, products, products))

    def loaded(data: bytes, parameters: Any, limit: int, products: bool) -> Any:
        import tenseal

        return tenseal.context_from(bytes(data))

    assert shipped is not serialised
    for module in (ckks, ckks_secret):
        monkeypatch.setattr(module, "serialised", serialised)
    monkeypatch.setattr(ckks, "_loaded", loaded)
    monkeypatch.setattr(encrypted, "ENCRYPTING_BYTES", encrypted.ENCRYPTING_BYTES + wider)
    for name in ("context_bytes", "encrypting_bytes"):
        bytes_of = CkksParameters.__dict__[name].fget
        monkeypatch.setattr(CkksParameters, name, property(lambda p, f=bytes_of: f(p) + wider))
    assert "the secret key is in the public one" in shown_key(
        played(small(protections.Encrypted(), rounds=1)).seen_by(SERVER_ALONE)
    )


@pytest.mark.trains
def test_no_secret_key_is_in_a_shipped_public_one() -> None:
    assert not shown_key(played(small(protections.Encrypted(), rounds=1)).seen_by(SERVER_ALONE))
