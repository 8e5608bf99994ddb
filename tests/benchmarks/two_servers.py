"""Two servers: CPU seconds, bytes and error of sharing, projecting, dealing, and the Gram matrix; and of one sum.

    python tests/benchmarks/two_servers.py [--json] [--clients 100] [--length 1000000] [--width 1024]

`measure` is one round on random updates, without training.
"""

import argparse
import json
import time

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Worked
from cloister.protocol.messages import MESSAGES
from cloister.protocol.two_servers.run import client_parties, collect, gram, helper_parties, max_bytes, sums
from cloister.protocol.two_servers.terms import ShareTerms
from cloister.protocol.work.uploads import Policy

RUN = bytes(16)


def measure(clients, length, width, max_norm=4096.0, with_sum=True):
    """CPU seconds by role and phase, bytes by link, and the largest relative error of the Gram matrix."""
    terms, entropy, roster = ShareTerms(length, width, max_norm, 3), SimulatedEntropy(0), tuple(range(clients))
    network = InProcess(kinds=MESSAGES, max_bytes=max_bytes(terms, clients))
    parties = client_parties(roster, RUN, terms, Policy(), entropy) | helper_parties(RUN, terms, Policy(), entropy)
    common = np.random.default_rng(0).standard_normal(length).astype(np.float32)

    def update(i):
        return common + np.random.default_rng([1, i]).standard_normal(length).astype(np.float32)

    def perform(tasks):
        return ((i, Worked(update(i), 1)) for i, _ in tasks)

    phases = {}

    def phase(name, play):
        before, wall = dict(network.cpu_seconds), time.perf_counter()
        result = play()
        after = network.cpu_seconds
        spent = {party: after[party] - before.get(party, 0.0) for party in after}
        roles = {"server": spent.get(SERVER, 0), "second server": spent.get(SECOND_SERVER, 0), "dealer": spent.get(DEALER, 0)}
        roles["clients"] = sum(s for party, s in spent.items() if party >= 0)
        phases[name] = {**roles, "all": sum(roles.values()), "wall": time.perf_counter() - wall}
        return result

    session = Session("two servers/update", RUN, 0, "root", roster, 1)
    model = bytes(4 * length)
    (collected,) = phase("upload", lambda: collect(network, parties, terms, [(session, "update", ("init",), model)], perform))
    rows = [((session.digest, i), share) for i, (share, _) in collected.received.items()]
    answer = phase("gram", lambda: gram(network, parties, terms, RUN, 0, rows, entropy))
    up, between = network.bytes_up, network.bytes_between
    if with_sum:
        weights = [(i, 1, share) for i, (share, _) in collected.received.items()]
        phase("sum", lambda: sums(network, parties, terms, RUN, 1, session.digest, weights))
    few = range(min(clients, 10))
    clear = np.stack([update(i) for i in few]).astype(np.float64)
    found = answer.gram[: len(few), : len(few)] * terms.gram_unit
    norms = np.linalg.norm(clear, axis=1)
    return {
        "clients": clients,
        "length": length,
        "width": terms.columns,
        "bits": terms.bits,
        "cpu_seconds": phases,
        "bytes_up_per_client": up / clients,
        "bytes_between": between,
        "relative_error_max": float((np.abs(found - clear @ clear.T) / np.outer(norms, norms)).max()),
        "tolerance": terms.gram_tolerance(np.diagonal(answer.gram) * terms.gram_unit),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=1024)
    options = parser.parse_args()
    result = measure(options.clients, options.length, options.width)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        if name != "cpu_seconds":
            print(f"{name:22} {value}")
    for name, seconds in result["cpu_seconds"].items():
        print(f"{name:8} " + "  ".join(f"{role} {s:.2f}" for role, s in seconds.items()))


if __name__ == "__main__":
    main()
