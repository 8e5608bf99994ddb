"""An audit takes off masks that a server and clients with it can compute: what is left still hides updates, or is found out."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cloister import protections
from cloister.crypto import shamir
from cloister.crypto.masks import mask
from cloister.protocol.masked import client as clients
from cloister.protocol.two_servers import upload_client
from cloister.threat_models.audit import recording
from cloister.threat_models.audit.added_words import added
from cloister.threat_models.audit.masks import examined
from cloister.threat_models.audit.observer import SERVER_ALONE, named, server_and
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.unopened import UNKNOWN

from .test_audit_masks import MASKED, SOUND, Patch, played, row_of, small

TOGETHER = protections.TwoServer(corrupt=1)


def star(hub: int) -> Callable[[Patch], None]:
    """Every client masks with one client alone; masks still cancel."""

    def patched(patch: Patch) -> None:
        sign, masked = clients.sign_of, clients.masked
        patch.setattr(clients, "sign_of", lambda me, i: sign(me, i) if hub in (me, i) else 0)
        patch.setattr(clients, "masked", lambda vector, keys: masked(vector, [(k, s) for k, s in keys if s]))

    return patched


def apart(patch: Patch) -> None:
    """Masks with client 0 and, among the others, in pairs alone: without client 0 a session falls apart."""
    sign, masked = clients.sign_of, clients.masked

    def of(me: int, i: int) -> int:
        together = 0 in (me, i) or (me - 1) // 2 == (i - 1) // 2
        return sign(me, i) if together else 0

    patch.setattr(clients, "sign_of", of)
    patch.setattr(clients, "masked", lambda vector, keys: masked(vector, [(k, s) for k, s in keys if s]))


def one_seed(of: str) -> Callable[[Patch], None]:
    """Keys of this purpose that all who know a seed can make, one for each session."""

    def patched(patch: Patch) -> None:
        shipped = clients.derive_key

        def derived(secret: bytes, purpose: str, context: bytes) -> bytes:
            common = purpose == of
            return shipped(bytes(32) if common else secret, purpose, context + secret[:2] if common else context)

        patch.setattr(clients, "derive_key", derived)

    return patched


@dataclass(frozen=True, slots=True)
class Common:
    """Secrets that follow from what all clients know, and a name."""

    entropy: Any

    def secret(self, label: str, size: int) -> bytes:
        return hashlib.sha256(b"what every client knows" + label.encode()).digest()[:size]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entropy, name)


def one_share_key(patch: Patch) -> None:
    shares = upload_client._shares

    def patched(state: Any, vector: Any, samples: int) -> Any:
        return shares(replace(state, idle=replace(state.idle, entropy=Common(state.idle.entropy))), vector, samples)

    patch.setattr(upload_client, "_shares", patched)


def one_key_for_all_rounds(of: str) -> Callable[[Patch], None]:
    """Each client's own, and the same in every session: whoever is told it once has it for good."""

    def patched(patch: Patch) -> None:
        join, shipped, me = clients._join, clients.derive_key, list[int]()

        def joined(state: Any, *given: Any) -> Any:
            me[:] = [state.me]
            return join(state, *given)

        def derived(secret: bytes, purpose: str, context: bytes) -> bytes:
            return shipped(bytes(me * 32), purpose, b"of all rounds") if purpose == of else shipped(secret, purpose, context)

        patch.setattr(clients, "_join", joined)
        patch.setattr(clients, "derive_key", derived)

    return patched


def public_pair_keys(patch: Patch) -> None:
    """Masks of two clients follow from who they are: they cancel, and anybody can make them."""
    masking, masked, near = clients._mask, clients.masked, list[tuple[int, int]]()

    def watched(state: Any, vector: Any) -> Any:
        me = state.idle.me
        near[:] = [(min(me, i), max(me, i)) for i in state.masking]
        return masking(state, vector)

    def under(vector: Any, keys: Any) -> Any:
        own, *pairs = keys
        known = [hashlib.sha256(repr(pair).encode()).digest() for pair in near]
        return masked(vector, [own, *((key, sign) for key, (_, sign) in zip(known, pairs, strict=True))])

    patch.setattr(clients, "_mask", watched)
    patch.setattr(clients, "masked", under)


def whole_shares(patch: Patch) -> None:
    """Every share is the secret itself."""
    patch.setattr(shamir, "_evaluate", lambda coefficients, holders: [coefficients[-1]] * len(holders))


def self_masks_alone(patch: Patch) -> None:
    """No masks between clients: the server takes off the ones that it is revealed, and has every update."""
    star(-1)(patch)


BROKEN: Mapping[str, tuple[Callable[[Patch], None], Any, str]] = {
    "a star around the client": (star(0), MASKED, "client 1's mask of round 0 is shared with client 0 alone"),
    "a star around another": (star(5), MASKED, "client 1's mask of round 0 is shared with client 5 alone"),
    "the others in pairs": (apart, MASKED, "unopened mask of round 0"),
    "one seed for all mask keys": (one_seed("mask key"), MASKED, "client 0's mask key of round 0 is not its own"),
    "one seed for all sealing keys": (one_seed("sealing key"), MASKED, "client 0's sealing key of round 0 is not its own"),
    "one seed for all self masks": (one_seed("self seed"), MASKED, "client 0's self mask key of round 0 is not its own"),
    "a mask key for all rounds": (one_key_for_all_rounds("mask key"), MASKED, "client 0's mask key of round 0 is not its own"),
    "a self mask for all rounds": (one_key_for_all_rounds("self seed"), MASKED, "self mask key of round 0 is not its own"),
    "pair keys that all can make": (public_pair_keys, MASKED, "client 0's mask of round 0 is not what its keys give"),
    "shares that are the secret": (whole_shares, MASKED, "client 0's secrets of round 0 follow from fewer than"),
    "one seed for all shares": (one_share_key, TOGETHER, "client 0's share key of round 0 is not its own"),
}


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_for_a_client_with_the_server_is_found(name: str, monkeypatch: Patch) -> None:
    broken, protection, words = BROKEN[name]
    broken(monkeypatch)
    recorder = played(small(protection, rounds=1))
    assert words in examined(added(recorder.seen_by(server_and(0)), recorder.truth)).witness
    assert examined(added(recorder.seen_by(SERVER_ALONE), recorder.truth)).witness  # keys are wrong whoever looks


@pytest.mark.trains
def test_a_mask_that_the_server_is_revealed_is_none(monkeypatch: Patch) -> None:
    self_masks_alone(monkeypatch)
    recorder = played(small(MASKED, rounds=1))
    witness = examined(added(recorder.seen_by(SERVER_ALONE), recorder.truth)).witness
    assert "client 0's unopened mask of round 0 is 0 in 611 of 611 words" in witness


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [MASKED, TOGETHER], ids=["masked", "two_servers"])
def test_claims_of_coalitions_are_judged_by_it(protection: Any, monkeypatch: Patch) -> None:
    name = "masked" if protection is MASKED else "two_servers"
    claimed = f"{name}.masks.server-and-client"
    sound = row_of(small(protection, rounds=1), server_and(0))
    assert [(j.claim.id, j.verdict) for j in sound.claims] == [(claimed, "not refuted")]
    (star(0) if protection is MASKED else one_share_key)(monkeypatch)
    broken = row_of(small(protection, rounds=1), server_and(0))
    assert [(j.claim.id, j.verdict) for j in broken.claims] == [(claimed, "refuted")]


@pytest.mark.trains
@pytest.mark.parametrize("name", [name for name in SOUND if name != "two servers"])
@pytest.mark.long
def test_what_is_left_of_masks_is_what_nobody_else_knows(name: str) -> None:
    """Where all but one are corrupt, its self mask, and nothing at all once that is revealed."""
    recorder = played(SOUND[name](0))
    everybody = recorder.truth.population.clients
    last = max(everybody)
    view = recorder.seen_by(server_and(*(i for i in everybody if i != last)))
    assert not added(view, recorder.truth).words
    own = {s: k.key for s, of in view.opened.items() for k in of if k.a == k.b == last}
    hidden = {s: tuple(k for k in view.opened[s] if k.a != k.b) for s in own}
    tables = [w for w in added(replace(view, opened=hidden), recorder.truth).words if w.clients[0] == last]
    assert sum(len(w.table) for w in tables) == len(own) > 0
    for words in tables:
        masks = {mask(k, words.table.shape[1], words.table.dtype.type).tobytes() for k in own.values()}
        assert {row.tobytes() for row in words.table} <= masks


def lost(frame: Any) -> Any:
    """A network that loses what client 2 puts into sums."""
    return () if frame.kind == "MaskedInput" and frame.sender == 2 else (frame,)


@pytest.mark.trains
def test_a_corrupt_client_holds_its_own_masks_and_the_server_those_that_it_was_revealed() -> None:
    recorder = played(small(protections.Masked(), 0, 12, rounds=1, faults=lost))
    view, alone, client = (recorder.seen_by(o) for o in (server_and(3), SERVER_ALONE, named("client:3")))
    assert view.held[3].mask_keys == client.held[3].mask_keys
    assert {i for of in view.held[3].mask_keys.values() for k in of for i in (k.a, k.b) if 3 not in (k.a, k.b)} == set()
    assert view.opened == alone.opened
    assert not client.opened
    shared = {k.key for of in recorder.truth.mask_keys.values() for k in of}
    pairs = {k for of in alone.opened.values() for k in of if k.a != k.b}
    assert {(k.a, k.b) for k in pairs} == {(min(2, i), max(2, i)) for i in range(12) if i != 2}
    assert {k.key for k in pairs} <= shared
    assert sorted(k.a for of in alone.opened.values() for k in of if k.a == k.b) == [0, 1, *range(3, 12)]
    assert not examined(added(view, recorder.truth)).witness


@pytest.mark.trains
@pytest.mark.parametrize("name", ["dropouts", "two servers"])
@pytest.mark.long
def test_a_recording_keeps_keys(name: str, tmp_path: Path) -> None:
    scenario = replace(SOUND[name](0), rounds=2)
    recorder = played(scenario)
    recording.save(recorder.recorded, tmp_path / "run")
    loaded = recording.load(tmp_path / "run", scenario)
    for observer in (SERVER_ALONE, server_and(0)):
        before, after = recorder.seen_by(observer), loaded.seen_by(observer)
        assert (after.opened, {i: h.mask_keys for i, h in after.held.items()}) == (
            before.opened,
            {i: h.mask_keys for i, h in before.held.items()},
        )
        assert examined(added(after, loaded.truth)) == examined(added(before, recorder.truth))
    old = replace(loaded, opened={}, truth=replace(loaded.truth, mask_keys={}))
    assert UNKNOWN in examined(added(old.seen_by(server_and(0)), old.truth)).missed
    unknown = replace(loaded.truth, mask_keys={})
    of_others = {s: tuple(replace(k, b=k.b + 1) for k in of) for s, of in loaded.truth.mask_keys.items()}
    others = replace(loaded.truth, mask_keys=of_others)
    for view in (loaded.seen_by(SERVER_ALONE), loaded.seen_by(server_and(0))):
        assert UNKNOWN in examined(added(view, unknown)).missed
        assert UNKNOWN in examined(added(view, others)).missed or name == "dropouts"
        assert UNKNOWN not in examined(added(view, loaded.truth)).missed


@pytest.mark.trains
def test_keys_that_no_seed_gives_are_not_judged(monkeypatch: Patch) -> None:
    """Of a run whose clients drew from the operating system nobody can say what a client's own key is."""
    monkeypatch.setattr("cloister.threat_models.audit.mask_keys.SimulatedEntropy", bytes)
    for protection in (MASKED, TOGETHER):
        recorder = Recorder(small(protection, rounds=1), None)
        list(recorder.rounds())
        found = examined(added(recorder.seen_by(server_and(0)), recorder.truth))
        assert not found.witness
        assert UNKNOWN in found.missed


@pytest.mark.trains
@pytest.mark.parametrize(
    ("at", "words"), [(0, "client 0's unopened mask of round 0 is 0 in"), (1, "self mask key of round 0 is not its own")]
)
def test_a_fault_that_is_planted_as_the_page_shows_is_found(at: int, words: str, monkeypatch: Patch) -> None:
    for name in ("masked", "derive_key"):
        monkeypatch.setattr(clients, name, getattr(clients, name))  # and is put back in the end
    page = Path(__file__).parents[1] / "docs/how-to/plant-a-fault.md"
    block = page.read_text().split("```python\n")[1 + at].split("```")[0]
    exec(block, {})  # noqa: S102
    recorder = played(small(MASKED, rounds=1))
    assert words in examined(added(recorder.seen_by(SERVER_ALONE), recorder.truth)).witness
