"""What a masked sum costs each role, against the keystream that the role must expand, measured in the same run.

CPU seconds of the process, all threads, in one process without a network: a client's part is decoding, its step and encoding of
all that it sends; likewise the server's. The keystream is AES-256-CTR in blocks that stay in cache and no more (`floor`), and
one call for each whole mask into fresh memory (`whole`), as a straightforward implementation has it.

    python tests/benchmarks/masked_sum.py [--json] [--length 1000000] [--repeat 2] [--journal]
"""

import argparse
import json
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.prg import keystream
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Deadline, Party, Perform, Received, Send, Step, Worked
from cloister.protocol.masked.graph import solve
from cloister.protocol.masked.journal import journalled_step
from cloister.protocol.masked.server import Advertising, Unmasked, propose, server_step
from cloister.protocol.masked.sum import Plan, SumPolicy, SumTerms, max_bytes, parties_of
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.parts.charter import Charter, Numbers
from cloister.protocol.parts.members import Members
from cloister.protocol.wire.codec import encode

MODEL = bytes(32)


@dataclass(frozen=True, slots=True)
class Case:
    """clients, of whom the first `dropped` fall silent before their input; a graph of k neighbours and threshold t."""

    name: str
    clients: int
    dropped: int
    k: int
    t: int


@dataclass(frozen=True, slots=True)
class Row:
    """What one case cost. Seconds: a mean client that survived, the server, and the keystreams that they must expand."""

    name: str
    k: int
    t: int
    masks_opened: int
    client_s: float
    client_floor_s: float
    client_whole_s: float
    server_s: float
    server_floor_s: float
    server_whole_s: float
    up_bytes: int
    up_over: float
    down_bytes: int


def cases() -> list[Case]:
    """The complete graph of 32; for 100 the solver's answers at (10 %, 10 %), and orientation's k = 30."""
    honest, malicious = (solve(100, 10, 0.1, malicious=m) for m in (False, True))
    return [
        Case("32, complete", 32, 3, 31, 20),
        Case("100, semi-honest k", 100, 10, honest.neighbours, max(honest.threshold, honest.neighbours // 2 + 1)),
        Case("100, k = 30", 100, 10, 30, 17),
        Case("100, malicious k", 100, 10, malicious.neighbours, malicious.threshold),
    ]


def floor_of_keystream(masks: int, size: int) -> float:
    """CPU seconds of `masks` keystreams of `size` bytes, block after block into one buffer."""
    block, zeros = bytearray(128 * 1024 + 16), bytes(128 * 1024)
    start = process_time()
    for i in range(masks):
        stream = Cipher(algorithms.AES256(i.to_bytes(32, "big")), modes.CTR(bytes(16))).encryptor()
        for at in range(0, size, len(zeros)):
            stream.update_into(memoryview(zeros)[: size - at], block)
    return process_time() - start


def whole_keystream(masks: int, size: int) -> float:
    """CPU seconds of `masks` keystreams of `size` bytes, each in one call and fresh memory; from a few of them."""
    few = min(masks, 10)
    start = process_time()
    for i in range(few):
        keystream(i.to_bytes(32, "big"), size)
    return (process_time() - start) * masks / few


class Metered:
    """Plays one session frame by frame and books the time of each role. Frames are encoded and decoded as on a wire."""

    def __init__(self, case: Case, length: int, step: Step) -> None:
        entropy = SimulatedEntropy(0)
        roster = tuple(range(case.clients))
        self.members = Members.enrol(roster, entropy)
        session = Session("masked sum/update", bytes(16), 0, "root", roster, case.clients // 2)
        terms = SumTerms(32, length, 16, 1.0, 8, case.k, case.t, bytes(range(32)), MODEL)
        policy = SumPolicy(unheld=frozenset({"update"}))
        charter = Charter(bytes(16), MODEL, Numbers(length, 32, 1.0, 1, policy.rules), None, self.members.enrolled)
        self.plan = Plan.of(session, terms, charter)
        self.clients = parties_of(self.members, charter, MODEL, policy, entropy)
        self.server = Party(SERVER, Advertising(self.plan), step)
        self.silent = frozenset(roster[:: case.clients // case.dropped][: case.dropped])
        self.client_seconds = dict.fromkeys(roster, 0.0)
        self.server_seconds = 0.0
        self.up = dict.fromkeys(roster, 0)
        self.down = 0
        self.limit = max_bytes(terms)
        self.network = InProcess(kinds=MESSAGES, max_bytes=self.limit)

    def input_of(self, client: int) -> np.ndarray:
        return np.random.default_rng(client).integers(0, self.plan.terms.largest, self.plan.terms.length, np.uint32)

    def play(self) -> Unmasked:
        sends = [e for e in propose(self.plan) if isinstance(e, Send)]
        while not isinstance(self.server.state, Unmasked):
            for send in sends:
                self.answer(send)
            start = process_time()
            effects = self.server.handle(Deadline())
            self.server_seconds += process_time() - start
            sends = [e for e in effects if isinstance(e, Send)]
        return self.server.state

    def answer(self, send: Send) -> None:
        client = send.envelope.receiver
        party = self.clients[client]
        start = process_time()
        data = encode(send.envelope)
        self.server_seconds += process_time() - start
        self.down += len(data)
        start = process_time()
        effects = party.handle(Received(decode(data, SERVER, self.limit)))
        self.client_seconds[client] += process_time() - start
        if any(isinstance(e, Perform) for e in effects):
            if client in self.silent:
                return
            vector = self.input_of(client)
            start = process_time()
            effects = party.handle(Worked(vector, 0))
            self.client_seconds[client] += process_time() - start
        for effect in effects:
            if isinstance(effect, Send):
                start = process_time()
                data = encode(effect.envelope)
                middle = process_time()
                self.server.handle(Received(decode(data, client, self.limit)))
                self.server_seconds += process_time() - middle
                self.client_seconds[client] += middle - start
                self.up[client] += len(data)


def measure(case: Case, length: int, repeat: int, step: Step) -> Row:
    """Minima of the repetitions for the roles' seconds and for the keystreams."""
    rows = []
    for _ in range(repeat):
        metered = Metered(case, length, step)
        end = metered.play()
        alive = end.clients
        check = sum(metered.input_of(i)[:1000].astype(np.uint64) for i in alive) % 2**32
        if not (end.total[:1000] == check).all() or len(alive) != case.clients - case.dropped:
            raise SystemExit("the sum is wrong")
        graph = metered.plan.graph
        opened = len(alive) + sum(i in set(alive) for d in metered.silent for i in graph.neighbours(d))
        size = 4 * length
        rows.append(
            (
                sum(metered.client_seconds[i] for i in alive) / len(alive),
                metered.server_seconds,
                floor_of_keystream(case.k + 1, size),
                whole_keystream(case.k + 1, size),
                floor_of_keystream(opened, size),
                whole_keystream(opened, size),
            )
        )
    client, server, client_floor, client_whole, server_floor, server_whole = (min(column) for column in zip(*rows, strict=True))
    up = max(metered.up.values())
    seconds = (client, client_floor, client_whole, server, server_floor, server_whole)
    return Row(case.name, case.k, case.t, opened, *seconds, up, up / size - 1, metered.down // case.clients)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--journal", action="store_true", help="let the server emit its journal, as one that may crash does")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        print(f"{'case':20} {'k':>3} {'t':>3} | client s  floor whole | server s  floor whole | up over  down MB")
    for case in cases():
        r = measure(case, arguments.length, arguments.repeat, journalled_step if arguments.journal else server_step)
        rows.append(r)
        if not arguments.json:
            print(
                f"{r.name:20} {r.k:3} {r.t:3} | {r.client_s:8.3f} {r.client_s / r.client_floor_s:6.2f} "
                f"{r.client_s / r.client_whole_s:5.2f} | {r.server_s:8.3f} {r.server_s / r.server_floor_s:6.2f} "
                f"{r.server_s / r.server_whole_s:5.2f} | {r.up_over:7.2%} {r.down_bytes / 1e6:8.3f}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
