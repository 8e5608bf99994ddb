"""What encrypted sums and scores cost each role, beside the encryption library alone doing the same in the same run.

CPU seconds of the process, all threads, in one process without a network. A role's part is decoding, its step and encoding of
what it sends; every message is encoded and decoded as on a wire. `bare` is what the library takes to encrypt and serialise, to
parse and add, to parse and decrypt the same ciphertexts, or to multiply the same pairs: no keys, no checks, no sketches.

    python tests/benchmarks/ckks.py [--json] [--length 1000000] [--clients 4] [--gram 20]
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np
import tenseal

from cloister.crypto.ckks import PRODUCTS, SUMS
from cloister.crypto.ckks_parameters import CkksParameters
from cloister.crypto.prg import derive_key
from cloister.crypto.projection import TwoStage
from cloister.fl.runs.run_folder import machine, versions
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Effect, Event, Party, Received, Send, Worked
from cloister.protocol.encrypted import keys as encrypted_keys
from cloister.protocol.encrypted import scores as encrypted_scores
from cloister.protocol.encrypted import sum as encrypted_sum
from cloister.protocol.encrypted.client import client_step
from cloister.protocol.encrypted.client_phases import SCORES, SKETCH, SUM, EncryptionPolicy, IdleEncryptor
from cloister.protocol.encrypted.keys import KeyName
from cloister.protocol.encrypted.scaling import Weighting
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import encode

RUN, SEED, LIMIT = bytes(16), bytes(range(32)), 1 << 31


@dataclass(frozen=True, slots=True)
class Row:
    """One part of one role. each_s: CPU seconds a time; bare_s: the library alone; ratio of the two. bytes: sent a time."""

    case: str
    part: str
    times: int
    each_s: float
    bare_s: float
    ratio: float
    bytes: int


class Meter:
    """Plays roles by hand and books, by part: CPU seconds, times, and bytes sent."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.times: dict[str, int] = defaultdict(int)
        self.bytes: dict[str, int] = defaultdict(int)

    def timed(self, part: str, work: Callable[[], Any], times: int = 1) -> Any:
        start = process_time()
        result = work()
        self.seconds[part] += process_time() - start
        self.times[part] += times
        return result

    def step(self, part: str, party: Party, event: Event | bytes, sender: int = SERVER, times: int = 1) -> list[bytes]:
        """The party takes an event, or a message as bytes; what it sends comes back as bytes."""

        def work() -> list[bytes]:
            taken = Received(decode(event, sender, LIMIT)) if isinstance(event, bytes) else event
            return sent(party.handle(taken))

        out: list[bytes] = self.timed(part, work, times)
        self.bytes[part] += sum(map(len, out))
        return out

    def rows(self, case: str, bare: dict[str, float]) -> list[Row]:
        found = []
        for part, total in self.seconds.items():
            times = max(self.times[part], 1)
            alone = bare.get(part, 0.0)
            found.append(
                Row(case, part, times, total / times, alone, total / times / alone if alone else 0.0, self.bytes[part] // times)
            )
        return found


def sent(effects: Iterable[Effect]) -> list[bytes]:
    return [encode(effect.envelope) for effect in effects if isinstance(effect, Send)]


def bare_library(parameters: CkksParameters, rows: list[np.ndarray]) -> dict[str, float]:
    """CPU seconds a vector: encrypt and serialise, parse and add, parse and decrypt; or multiply and decrypt a pair."""
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, parameters.degree, coeff_mod_bit_sizes=list(parameters.modulus_bits), n_threads=1
    )
    context.global_scale = 2**parameters.scale_bits
    if parameters.multiplies:
        context.generate_galois_keys()
    size, seconds = parameters.slots, {}

    def clock(name: str, work: Callable[[], Any], times: int) -> Any:
        start = process_time()
        result = work()
        seconds[name] = (process_time() - start) / times
        return result

    def encrypt(row: np.ndarray) -> list[bytes]:
        return [tenseal.ckks_vector(context, row[at : at + size]).serialize() for at in range(0, len(row), size)]

    def parse(data: list[bytes]) -> list[Any]:
        return [tenseal.ckks_vector_from(context, part) for part in data]

    data = clock("client: encrypt", lambda: [encrypt(row) for row in rows], len(rows))
    if parameters.multiplies:
        vectors = [parse(row) for row in data]
        pairs = [(x, z) for i, x in enumerate(vectors) for z in vectors[i:]]
        found = clock("server: multiply a pair", lambda: [sum_of(x, z).serialize() for x, z in pairs], len(pairs))
        clock("holder: open a score", lambda: [tenseal.ckks_vector_from(context, part).decrypt() for part in found], len(found))
        return seconds
    total = parse(data[0])

    def add() -> None:
        for row in data[1:]:
            for left, right in zip(total, parse(row), strict=True):
                left.add_(right)

    clock("server: add", add, len(data) - 1)
    parts = [part.serialize() for part in total]
    clock("member: open", lambda: [part.decrypt() for part in parse(parts)], 1)
    return seconds


def sum_of(left: list[Any], right: list[Any]) -> Any:
    total, *others = [a.dot(b) for a, b in zip(left, right, strict=True)]
    for other in others:
        total.add_(other)
    return total


@dataclass(frozen=True, slots=True)
class Sketched:
    """In place of a sketch whose cost is measured by itself: the update is its own."""

    k: int

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return rows.astype(np.float64)


def clients_of(count: int, d: int, sketch: Any) -> dict[int, Party]:
    policy = EncryptionPolicy(2, 2, "session")
    return {i: Party(i, IdleEncryptor(i, RUN, policy, SEED, lambda _: sketch, d), client_step) for i in range(count)}


def made_key(meter: Meter, clients: dict[int, Party], name: KeyName) -> encrypted_keys.RelayedKey:
    session = name.session(tuple(clients))
    server = Party(SERVER, encrypted_keys.AskingKey(name, session), encrypted_keys.server_step)
    (request,) = sent(encrypted_keys.ask(server.state))
    (offered,) = meter.step("holder: make the key", clients[0], request)
    meter.step("server: take the key", server, offered, 0)
    key: encrypted_keys.RelayedKey = server.state.key
    return key


def sums(count: int, d: int) -> list[Row]:
    """A sum of `count` clients; the mean of the clients' parts."""
    meter, roster = Meter(), tuple(range(count))
    clients = clients_of(count, d, Sketched(d))
    key = made_key(meter, clients, KeyName(RUN, "sums", 0, "root"))
    plan = encrypted_sum.SumPlan(
        Session(SUM, RUN, 0, "root", roster, 2), key, Weighting(dict.fromkeys(roster, 1.0), False), d, roster
    )
    server = Party(SERVER, encrypted_sum.AddingSummands(plan), encrypted_sum.server_step)
    rows = [np.random.default_rng(i).standard_normal(d).astype(np.float32) for i in roster]
    for client, request in zip(roster, sent(encrypted_sum.invite(plan)), strict=True):
        meter.step("client: encrypt", clients[client], request)
        (data,) = meter.step("client: encrypt", clients[client], Worked(rows[client], 1), times=0)
        meter.step("server: add", server, data, client)
    totals = meter.step("server: send the sum", server, Deadline(), times=count)
    for client, total in zip(roster, totals, strict=True):
        meter.step("member: open", clients[client], total)
    return meter.rows(f"sum, d = {d}", bare_library(SUMS, [row.astype(np.float64) for row in rows]))


def scores(count: int, k: int, d: int) -> list[Row]:
    """A Gram matrix of `count` clients with sketches of k measurements; the sketch of d coordinates is measured once."""
    meter, roster = Meter(), tuple(range(count))
    sketch = TwoStage.draw(derive_key(SEED, "public", b""), SEED, d, k)
    rows = [np.random.default_rng(i).standard_normal(d).astype(np.float32) for i in range(1)]
    meter.timed("client: sketch", lambda: sketch.apply(rows[0]))
    clients = clients_of(count, k, Sketched(k))
    key = made_key(meter, clients, KeyName(RUN, "products", 0, "root"))
    state = encrypted_scores.CollectingCiphertexts(Session(SKETCH, RUN, 0, "root", roster, 1), key, k)
    server = Party(SERVER, state, encrypted_scores.server_step)
    rows = [np.random.default_rng(i).standard_normal(k).astype(np.float32) for i in roster]
    for client, request in zip(roster, sent(encrypted_scores.invite(state)), strict=True):
        meter.step("client: encrypt", clients[client], request)
        (data,) = meter.step("client: encrypt", clients[client], Worked(rows[client], 1), times=0)
        meter.step("server: collect", server, data, client)
    server.handle(Deadline())
    found, pairs = list(server.state.received.values()), count * (count + 1) // 2
    session = Session(SCORES, RUN, 0, "root", roster, 1)
    comparing = meter.timed(
        "server: multiply a pair", lambda: encrypted_scores.comparison(session, key, found, [], 3, bytes(32)), pairs
    )
    server = Party(SERVER, comparing, encrypted_scores.server_step)
    (request,) = sent(encrypted_scores.ask(comparing))
    meter.bytes["server: multiply a pair"] = len(request)
    (answer,) = meter.step("holder: open a score", clients[0], request, times=pairs)
    meter.step("server: read the scores", server, answer, 0)
    bare = bare_library(PRODUCTS, [rng / 100 for rng in np.random.default_rng(0).standard_normal((4, k))])
    return meter.rows(f"scores of {count}, k = {k}", bare)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--gram", type=int, default=20)
    arguments = parser.parse_args()
    rows = sums(arguments.clients, arguments.length)
    for k in (1024, 4096):
        rows += scores(arguments.gram, k, arguments.length)
    if arguments.json:
        print(json.dumps({"machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}))
        return
    print(f"{'case':24} {'part':24} {'times':>5} {'CPU s':>9} {'bare':>9} {'ratio':>6} {'bytes':>12}")
    for r in rows:
        bare, ratio = (f"{r.bare_s:9.4f}", f"{r.ratio:6.2f}") if r.bare_s else (" " * 9, " " * 6)
        print(f"{r.case:24} {r.part:24} {r.times:5} {r.each_s:9.4f} {bare} {ratio} {r.bytes:12,}")


if __name__ == "__main__":
    main()
