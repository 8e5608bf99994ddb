"""A coordinator that crashes goes on from its journal: with nothing lost, and nobody asked or answering twice."""

import shutil
import tracemalloc

import cbor2
import numpy as np
import pytest

from cloister.protocol import Masked, Plain
from cloister.protocol.core.halt import Halt, Halted
from cloister.protocol.drivers.event_log import HEAD, EventLog
from cloister.protocol.wire.codec import encoding_of
from cloister.protocol.work.journalled import Diverged

from .crashing import Halting, Moments, Play, check
from .test_away import MEMBERS

PROTECTIONS = [Plain(), Masked(floor=2)]


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    """What is lost with the machine is drawn here, and not left to the disk."""
    monkeypatch.setattr("cloister.protocol.drivers.event_log.os.fsync", lambda of: None)


def moments_of(protection, folder):
    """How many there are in a run without crashes, and how it ends."""
    play, moments = Play(protection, folder), Moments()
    found = play.life(moments)
    check(found)
    assert [ended[0] for ended in found] == [MEMBERS] * 2
    return moments.seen, found


def check_crashes(protection, folder, share, crashes=1, moments=Moments, **how):
    folder.joinpath("whole").mkdir()
    count, expected = moments_of(protection, folder / "whole")
    for at in range(1, count + 1, share):
        shutil.rmtree(folder / "one", ignore_errors=True)
        (folder / "one").mkdir()
        play = Play(protection, folder / "one", seed=at, **how)
        found = play.lives(*[at] * crashes, moments=moments)
        assert not any(end.twice for end in play.ends.values()), at
        check(found)
        if not how.get("absent"):
            for (clients, model, _), (same, other, _) in zip(found, expected, strict=True):
                assert clients == same
                assert np.allclose(model, other, atol=1e-5), at
    return count


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_a_crash_at_any_moment_loses_nothing(protection, tmp_path):
    assert check_crashes(protection, tmp_path, 13) > 100


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_a_crash_that_also_loses_what_was_not_on_disk_loses_nothing(protection, tmp_path):
    check_crashes(protection, tmp_path, 23, power=True)


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_lives_that_crash_one_after_another_lose_nothing(protection, tmp_path):
    check_crashes(protection, tmp_path, 47, crashes=4, power=True)


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_lives_that_are_asked_to_stop_at_any_moment_lose_nothing(protection, tmp_path):
    check_crashes(protection, tmp_path, 37, crashes=2, moments=Halting)


def test_whoever_is_asked_to_stop_says_nothing_more(tmp_path):
    play, moments = Play(Plain(), tmp_path), Halting(60)
    with pytest.raises(Halted):
        play.life(moments)
    assert moments.seen < 70
    before = play.path.read_bytes()
    with pytest.raises(Halted):
        play.life(Moments(halt=Halt(asked=True)))
    assert play.path.read_bytes() == before


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_with_absent_clients_and_late_answers_sums_are_right_of_those_whom_they_name(protection, tmp_path):
    check_crashes(protection, tmp_path, 29, power=True, absent=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_every_moment(protection, power, tmp_path):
    check_crashes(protection, tmp_path, 1, power=power)


def test_a_journal_of_another_run_of_the_same_words_is_not_gone_on_from(tmp_path):
    play = Play(Plain(), tmp_path)
    play.lives(60)
    words = [cbor2.loads(record) for record in EventLog(play.path).records()]
    at = next(k for k, record in enumerate(words) if record and record[0] == 0)
    words[at][3] = bytes(16)
    EventLog.begun(play.path, cbor2.dumps(words[0])).close()
    log = EventLog(play.path)
    for record in words[1:]:
        log.append(cbor2.dumps(record))
    log.close()
    with pytest.raises(Diverged, match="not what it did, at word 1 to client 0"):
        play.life(Moments())


# --- who was not ready for the run ---------------------------------------------------------------------------------------


def test_who_comes_late_takes_part_from_the_next_round_on(tmp_path):
    """Where clients share nothing, also one that nobody knew when the run began."""
    play = Play(Plain(), tmp_path)
    play.rounds, late = 3, play.ends[3]
    late.gone = True

    def before(round):
        late.gone = round < 1

    play.before = before
    assert [ended[0] for ended in play.life(Moments())] == [(0, 2, 5), MEMBERS, MEMBERS]


@pytest.mark.parametrize("word", [1, 2, 4, 5, 6, 7, 8])
def test_who_was_killed_while_the_run_began_is_welcomed_between_rounds(word, tmp_path):
    """Its identity is the one that it was enrolled with, and others seal it the seed. Not who goes after its third word, by which
    it advertised a key: as many have sealed to that one as ever will to any."""
    play = Play(Masked(floor=2), tmp_path)
    play.rounds, victim = 2, play.ends[3]
    told = victim.told

    def telling(number, settled, data):
        answer = told(number, settled, data)
        victim.gone = victim.gone or number == word  # it answered, and is gone
        return answer

    def before(round):
        if round == 1:
            victim.gone, victim.told = False, told
            play.restart(3)

    victim.told, play.before = telling, before
    found = play.life(Moments())
    check(found)
    assert [ended[0] for ended in found] == [(0, 2, 5), MEMBERS]
    assert not any(end.twice for end in play.ends.values())


def test_who_was_not_enrolled_takes_no_part_where_others_rely_on_identities(tmp_path):
    play = Play(Masked(floor=2), tmp_path)
    play.rounds, late = 2, play.ends[3]
    late.gone = True
    play.before = lambda round: setattr(late, "gone", False)
    assert [ended[0] for ended in play.life(Moments())] == [(0, 2, 5)] * 2


# --- the file --------------------------------------------------------------------------------------------------------------


def test_a_log_that_is_torn_at_any_byte_of_its_last_record_ends_with_the_one_before(tmp_path):
    log = EventLog(tmp_path / "log")
    for data in (b"one", b"", b"three" * 20):
        log.append(data)
    log.close()
    whole = (tmp_path / "log").read_bytes()
    last = len(whole) - HEAD.size - 100
    for at in range(last, len(whole)):
        (tmp_path / "torn").write_bytes(whole[:at])
        torn = EventLog(tmp_path / "torn")
        assert list(torn.records()) == [b"one", b""]
        assert torn.cut == at - last
        torn.append(b"four")
        torn.close()
        assert list(EventLog(tmp_path / "torn").records()) == [b"one", b"", b"four"]


def test_a_log_with_a_changed_byte_ends_before_it(tmp_path):
    log = EventLog(tmp_path / "log")
    for data in (b"one", b"two", b"three"):
        log.append(data)
    log.close()
    whole = (tmp_path / "log").read_bytes()
    for at in range(len(whole)):
        (tmp_path / "changed").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = list(EventLog(tmp_path / "changed").records())
        assert found == [b"one", b"two", b"three"][: at // (HEAD.size + 3) if at < 2 * (HEAD.size + 3) else 2]


def test_a_long_record_is_its_parts_together_and_is_not_copied(tmp_path):
    vector = np.random.default_rng(0).bytes(8 << 20)
    parts = encoding_of([1, 2, 3, vector, False])
    assert any(part is vector for part in parts)
    log = EventLog(tmp_path / "log")
    tracemalloc.start()
    try:
        log.append(*parts)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    log.append(b"sh", b"ort")
    assert list(EventLog(tmp_path / "log").records()) == [cbor2.dumps([1, 2, 3, vector, False]), b"short"]


def test_a_length_that_is_only_declared_is_not_read(tmp_path):
    (tmp_path / "log").write_bytes(HEAD.pack((1 << 32) - 1, bytes(32)) + b"short")
    assert list(EventLog(tmp_path / "log").records()) == []


def test_a_full_disk_ends_the_coordinator_and_loses_nothing(tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "one").mkdir()
    _, expected = moments_of(Plain(), tmp_path / "whole")
    play, room = Play(Plain(), tmp_path / "one"), [1500]
    written = EventLog.append

    def full(log, data):
        room[0] -= len(data)
        if room[0] < 0:
            log._file.write(HEAD.pack(len(data), bytes(32)) + data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        written(log, data)

    monkeypatch.setattr(EventLog, "append", full)
    with pytest.raises(OSError, match="No space"):
        play.life(Moments())
    monkeypatch.setattr(EventLog, "append", written)
    found = play.life(Moments())
    assert all(np.allclose(model, other, atol=1e-5) for (_, model, _), (_, other, _) in zip(found, expected, strict=True))
    assert not any(end.twice for end in play.ends.values())
