"""What a client says that it refused, when a word comes again that an earlier life of it was in the midst of."""

import cbor2
import pytest

from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.work.driving import SITS_OUT, TWICE
from cloister.protocol.work.said import said

from .deployed import authority, driven_by, greeting, standing
from .torture import machine, play
from .torture.schedule import Schedule

ME, WORDS = 1, 14


def refused_at(number, protection, monkeypatch):
    """By a client that is killed when it has stored what follows from this word, and before its link's entry says so: the word
    comes again, to its next life. What it refuses of it, and of the words after it in that round.
    """
    found, words, take = [], [], machine.Machine.take

    def twice(self, data):
        if self.id != ME:
            return take(self, data)
        words.append(data)
        if len(words) == number and machine.is_frame(data):
            told, self._told = self._told, lambda sent: None  # it never leaves
            take(self, data)
            self._told = told
            self.crash()
            self.start()
        answer = take(self, data)
        if self.life > 1 and machine.is_followed(plain := cbor2.loads(answer)):
            found.extend(reason for _, reason in plain[2])
        return answer

    monkeypatch.setattr(machine.Machine, "take", twice)
    assert not play.play(Schedule(protection, rounds=2, calm=False)).broken
    monkeypatch.setattr(machine.Machine, "take", take)
    return found


@pytest.mark.parametrize("protection", ["masked", "two servers", "encrypted", "pairs"])
@pytest.mark.long
def test_a_client_that_is_killed_when_its_round_is_spent_says_so_and_not_that_it_answered(protection, monkeypatch):
    """It answered nothing, and its coordinator asked for nothing else than before: it said either of these."""
    found = [reason for number in range(1, WORDS) for reason in refused_at(number, protection, monkeypatch)]
    assert TWICE in found
    right = {TWICE} | ({"an offer for a pair already answered"} if protection == "pairs" else set())  # in the round before
    assert all(reason in right or reason.endswith(SITS_OUT) for reason in found), set(found)


def test_who_is_who_is_taken_twice_where_it_is_the_same(tmp_path):
    """Of a client that was killed between its journal's beginning and its link's entry. Others' it takes once."""
    pki, journal = authority(tmp_path / "pki", 3), InMemory()
    own = standing(pki, 0)
    shown = {use: dict(of) for use, of in own.directory.enrolled((0, 1)).items()}
    others = {use: dict(of) for use, of in own.directory.enrolled((0, 1, 2)).items()}
    greeted = greeting(bytes(16), (0, 1), 0)
    assert not said(driven_by(greeted, own, journal), cbor2.dumps(["enrol", shown])).refused
    back = driven_by(greeted, own, journal)
    again = said(back, cbor2.dumps(["enrol", shown]))
    assert (cbor2.loads(again.data), again.refused) == (True, ())
    assert said(back, cbor2.dumps(["enrol", others])).refused == ((SERVER, "others' identities a second time, and not the same"),)
