"""The test vectors of sums into slots under two servers and CKKS. Written by make_vectors.py.

Two servers: a session of four clients with all that was sent, and frames that must be refused. CKKS draws its own randomness, so
there the vectors are the numbers that are encrypted, and what a member reads, or refuses, in totals.
"""

from dataclasses import replace

import numpy as np

from cloister.crypto.ckks_secret import SecretContext
from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.session import SECOND_SERVER, SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Worked
from cloister.protocol.encrypted.slots import EncryptedSlots
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.two_servers.questions import slot_question
from cloister.protocol.two_servers.run import client_parties, collect, helper_parties, max_bytes, slot_sums
from cloister.protocol.two_servers.slot_sums import SlotsAnswered
from cloister.protocol.two_servers.slot_terms import SharedSlots
from cloister.protocol.two_servers.terms import ShareTerms
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import encode
from cloister.protocol.work.uploads import Policy

SEED = 2020
ENTROPY = SimulatedEntropy(SEED)
LIMIT = 1 << 20
SESSION = Session("two servers/slots", bytes(range(16)), 3, "root", (1, 4, 6, 9), 1)
SLOTS = SharedSlots(3, 2, 5, 8.0, 2)
SHARES = {1: (2, 0, 0), 4: (5, 1, 0), 6: (0, 3, 0), 9: (0, 0, 4)}
VECTORS = {i: np.array([[i / 8 + k, -1 - k] for k in range(3)], np.float32) for i in SHARES}


def work(client):
    kept = np.array(SHARES[client])[:, None] > 0
    return LocalWork(VECTORS[client] * kept, 1, SHARES[client])


def play(tap=None):
    """What was collected, the answer and the network."""
    terms, policy = ShareTerms(2, 2, 8.0, 2), Policy()
    network = InProcess(tap, kinds=MESSAGES, max_bytes=max_bytes(SLOTS.terms, 0) + 256 * 4, record=True)
    parties = client_parties(SESSION.roster, SESSION.run, terms, policy, ENTROPY)
    parties |= helper_parties(SESSION.run, terms, policy, ENTROPY)

    def perform(tasks):
        return ((i, Worked(SLOTS.shared(work(i)), 1)) for i, _ in tasks)

    task = (SESSION, "slots", ("one", "two", "three"), np.arange(6, dtype="<f4").tobytes())
    (collected,) = collect(network, parties, SLOTS.terms, [task], perform, SLOTS)
    return collected, slot_sums(network, parties, SLOTS, SESSION.run, 0, collected) if collected.received else None, network


def two_servers():
    _, answer, network = play()
    frames = [{"kind": f.kind, "sender": f.sender, "receiver": f.receiver, "bytes": f.data} for f in network.frames]
    return {
        "entropy_seed": SEED,
        "labels": ["two servers ID BINDING", "two servers ID slots BINDING"],
        "session": {"run": SESSION.run, "round": 3, "cluster": "root", "roster": SESSION.roster, "digest": SESSION.digest},
        "slots": {"count": 3, "d": 2, "most": 5, "max_norm": 8.0, "floor": 2},
        "bits": SLOTS.terms.bits,
        "one": SLOTS.one,
        "binding": SLOTS.binding(SESSION),
        "shares": {str(i): shares for i, shares in SHARES.items()},
        "vectors": {str(i): vector.tolist() for i, vector in VECTORS.items()},
        "shared": {str(i): SLOTS.terms.encode(SLOTS.shared(work(i))).tolist() for i in SHARES},
        "counts": answer.counts,
        "rows": {str(k): row.tolist() for k, row in answer.rows.items()},
        "frames": frames,
    }


def raised(counts, slot, by):
    """The bytes of the counts with more in one slot."""
    parts = [int.from_bytes(counts[at : at + 20], "big") for at in range(0, len(counts), 20)]
    parts[slot] += by
    return b"".join(part.to_bytes(20, "big") for part in parts)


def broken_two_servers():
    """One changed or dropped frame each: who survives, which slots are opened, and the first fault."""
    _, _, whole = play()
    first = {}
    for frame in whole.frames:
        first.setdefault(frame.kind, frame)
    asked = decode(first["SlotQuestion"].data, SERVER, LIMIT).message

    shown = decode(first["SlotsAgreed"].data, SECOND_SERVER, LIMIT).message.commitments

    def changed(kind, **parts):
        sent = decode(first[kind].data, first[kind].sender, LIMIT)
        message = replace(sent.message, **parts)
        session = slot_question(SESSION.run, message) if kind == "SlotQuestion" else sent.session
        return kind, encode(replace(sent, session=session, message=message))

    cases = {
        "a lost key": ("SlotKey", b""),
        "a lost share": ("SlotShare", b""),
        "a share of other slots": changed("SlotShare", binding=bytes(32)),
        "a share too short": changed("SlotShare", vector=bytes(8)),
        "a key of another session": changed("SlotKey", binding=bytes(32)),
        "a key of work from other models": changed("SlotKey", model=bytes(32)),
        "a commitment to nothing": changed("SlotKey", commitment=bytes(256)),
        "a commitment out of the group": changed("SlotKey", commitment=b"\xff" * 256),
        "a commitment to other counts": changed("SlotKey", commitment=bytes(255) + b"\x04"),
        "a blinding of another commitment": changed("SlotShare", blinding=bytes(272)),
        "fewer survivors": changed("Held", clients=(1, 6, 9)),
        "a survivor alone": changed("Held", clients=(9,)),
        "one more in a small slot": changed("SlotQuestion", counts=raised(asked.counts, 2, SLOTS.one)),
        "one more in a small slot and a wrap": changed("SlotQuestion", counts=raised(asked.counts, 2, SLOTS.one + 2**64)),
        "counts of two slots": changed("SlotQuestion", counts=asked.counts[:40]),
        "another sum of blindings": changed("SlotQuestion", blinding=bytes(276)),
        "without a survivor": changed("SlotQuestion", without=(9,)),
        "without a stranger": changed("SlotQuestion", without=(2,)),
        "another commitment shown": changed("SlotsAgreed", commitments=shown[:-1] + bytes([shown[-1] ^ 1])),
        "commitments of fewer": changed("SlotsAgreed", clients=(1, 4, 6), commitments=shown[:768]),
        "slots that are not held": changed("SlotQuestion", source=bytes(32)),
        "a lost question": ("SlotQuestion", b""),
        "a lost answer": ("SlotAnswer", b""),
        "a row too few": changed("SlotAnswer", rows=bytes(24)),
        "counts that are not whole": changed("SlotAnswer", counts=bytes(24), rows=b""),
    }
    results = []
    for name, (kind, data) in cases.items():
        number = first[kind].number

        def tap(frame, number=number, data=data):
            if frame.number != number:
                return [frame]
            return [replace(frame, data=data)] if data else []

        collected, answer, network = play(tap)
        fault = network.faults[0] if network.faults else None
        results.append(
            {
                "name": name,
                "frame": number,
                "bytes": data,
                "survivors": list(collected.received),
                "counts": answer.counts if isinstance(answer, SlotsAnswered) else None,
                "opened": list(answer.rows) if isinstance(answer, SlotsAnswered) else [],
                "blame": None if fault is None else fault.blame,
                "reason": None if fault is None else fault.reason,
            }
        )
    return results


ENCRYPTED = EncryptedSlots(3, 2, 5, 2)


def sparse(values):
    """The values that are not 0, by place."""
    return {str(at): float(values[at]) for at in np.flatnonzero(values)}


def encrypted():
    """Inputs, and what a member reads in totals of them: counts of all, weights and means of the slots that it opens."""
    inputs = {i: ENCRYPTED.values(work(i)) for i in SHARES}
    total = np.sum(list(inputs.values()), axis=0)
    key = SecretContext.generate()

    def read(ciphertexts, alive, opened, counts):
        try:
            if opened is None:
                return {"counts": ENCRYPTED.counts(key, ciphertexts, alive).counts}
            weights, means = ENCRYPTED.means(key, ciphertexts, {k: counts[k] for k in opened})
            return {"weights": weights, "means": np.round(means, 5).tolist()}
        except ValueError as error:
            return {"refused": str(error)}

    counts, rows = total[:4096], total[4096:].reshape(3, 4096)
    more, heavy, foreign = counts.copy(), rows.copy(), rows.copy()
    more[1] += 1024 * 4
    heavy[0, 2] *= 2
    foreign[0, 3] += 1024
    cases = {
        "counts": (counts, (1, 4, 6, 9), None),
        "open slots": (rows[:2].ravel(), (1, 4, 6, 9), (0, 1)),
        "one open slot": (rows[1], (1, 4, 6, 9), (1,)),
        "counts of fewer than are said": (counts, (1, 4, 6), None),
        "more in a slot than there are": (more, (1, 4, 6, 9), None),
        "a slot of another count": (rows[1:].ravel(), (1, 4, 6, 9), (0, 1)),
        "a weight that cannot be": (heavy[0], (1, 4, 6, 9), (0,)),
        "one more in a row": (foreign[0], (1, 4, 6, 9), (0,)),
        "rows of fewer slots": (rows[0], (1, 4, 6, 9), (0, 1)),
    }
    found = []
    for name, (values, alive, opened) in cases.items():
        told = read(key.public().encrypt(values).to_bytes(), alive, opened, {0: 2, 1: 2, 2: 1})
        found.append({"name": name, "values": sparse(values), "length": len(values), "alive": alive, "slots": opened, **told})
    return {
        "slots": {"count": 3, "d": 2, "most": 5, "floor": 2},
        "length": ENCRYPTED.length,
        "shares": {str(i): shares for i, shares in SHARES.items()},
        "vectors": {str(i): vector.tolist() for i, vector in VECTORS.items()},
        "inputs": {str(i): sparse(values) for i, values in inputs.items()},
        "opened": ENCRYPTED.chosen((2, 2, 1)),
        "totals": found,
    }


FILES = {
    "slots/v1/two_servers.json": two_servers,
    "slots/v1/two_servers_broken.json": broken_two_servers,
    "slots/v1/encrypted.json": encrypted,
}
