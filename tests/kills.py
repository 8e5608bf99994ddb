"""Coordinators and clients over gRPC on this machine that are killed with -9, at frames, at words and at any time, and go on.

    python tests/kills.py --kills 200                     # about ten minutes on two cores; prints JSON
    python tests/kills.py --kills 30 --only encrypted     # of one of SCENARIOS
    python tests/kills.py --kills 30 --only "two servers" # with keys; of the second server too, whose round may be lost
    python tests/kills.py --kills 30 --only seed          # with keys, all in the exchange of the run's seed and just before

Each play is a run with six clients. What is counted: kills; rounds whose sum was right, of those whom it names; rounds that came
to nothing; inputs that were lost with their clients; lives that hang; second answers to one word; updates that could be opened,
because shares of both of a client's secrets, or of two survivor sets, were revealed. The model is held against that of a
simulation that loses the same inputs; where no client was killed, none is lost, and all say how well they predict that are asked.
Where clients own the models, it is their own that are held against it. What two servers could open together is not counted.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import cbor2
import numpy as np
import torch
from safetensors.numpy import load_file

from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.emd.subsample import Size
from cloister.fl.runs.experiment import run
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.serving import serve
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import Limits
from cloister.protocol.masked.messages import Reveal
from cloister.protocol.messages import decode
from cloister.protocol.pairs.choices import ONE_RELEASE
from cloister.protocol.pki import office
from cloister.protocol.two_servers.aside import Aside
from cloister.protocol.two_servers.deployed import ListeningAside, second_server

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.deployed import standing
from tests.deployed_scenario import scenario

CLIENTS, ROUNDS = tuple(range(6)), 3
MOST_LOST = 6
"""Inputs of a run, for as many of which a simulation is looked for that loses the same."""
LONGEST = 120.0
"""Seconds of a life, after which it counts as hanging."""
SHORT = replace(scenario, rounds=ROUNDS)
ALIKE = EMDCFL(choice=ONE_RELEASE, size=Size(20), by_samples=False, eps=10.0)
SCENARIOS = {
    "masked": SHORT,
    "plain": replace(SHORT, protection=Plain()),
    "permuted": replace(SHORT, protection=Permuted(floor=2)),
    "encrypted": replace(SHORT, protection=Encrypted(floor=2)),
    "slots": replace(SHORT, algorithm=IFCA(models=2), protection=Masked(floor=2, slot_spare=0)),
    "pairs": replace(SHORT, algorithm=ALIKE, validation=0.3),
    "scores": SHORT,
    "two servers": replace(SHORT, protection=TwoServer(k=128)),
    "seed": replace(SHORT, protection=Permuted(floor=2)),
}
KEYED = ("two servers", "seed")
"""Those that are played over mutual TLS."""
FIRST_FRAMES, FIRST_WORDS = 29, 6
"""In an exchange of the seed: all frames, and words to a client with that of who is who."""
SILENCES = {
    "plain": ("Upload",),
    "permuted": ("Upload",),
    "seed": ("Upload",),
    "encrypted": ("Ready", "EncryptedInput"),
    "two servers": ("ExplicitShare",),
}
"""At which messages a client that is lost falls silent; under masked sums at those of `MASKED`."""
MASKED = ("Ready", "MaskedInput")
KILLED = ("kills of coordinators", "kills of clients", "kills of second servers")
ASKED = ("permuted", "encrypted", "slots", "scores")
"""Of which clients are asked how well they predict."""
assert isinstance(SCENARIOS["masked"].protection, Masked)


@dataclass
class Kill:
    """Of one life of a coordinator: after so many frames, or after so many seconds. client: who is killed with it, and at which
    of its words, before or after it answers; None: nobody. It may be the second server.
    """

    frames: int | None
    seconds: float | None
    client: tuple[int, int, bool] | None = None


@dataclass
class Verdict:
    """What a play came to."""

    counts: Counter = field(default_factory=Counter)
    wrong: list = field(default_factory=list)


# --- processes ------------------------------------------------------------------------------------------------------------


def forked(what, *of):
    """Play it in a process of its own; its id. What it says goes to a file."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        what(*of)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def logging_to(path):
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)


def keys_of(folder, name, party):
    """A party's standing, where the scenario is played with keys; they are made for the play."""
    return standing(folder / "pki", party) if name in KEYED else None


COUNTED = {"seen": 0, "until": 0}
"""Frames of this life of the coordinator, and after how many it ends itself: state, and no part of its scenario."""


def fate(frame):
    COUNTED["seen"] += 1
    if COUNTED["seen"] == COUNTED["until"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return [frame]


def coordinator(folder, port, name, frames):
    """A life of the coordinator, which ends itself after so many frames."""
    logging_to(folder / "coordinator.log")
    COUNTED.update(seen=0, until=frames)
    own = keys_of(folder, name, SERVER)
    where = Listening(f"127.0.0.1:{port}", own, limits=Limits(patience=20.0, back=3.0), wait=60.0, scores=name == "scores")
    for _ in serve(replace(SCENARIOS[name], faults=fate), folder / "served", where):
        pass


class Watched(Dialled):
    """A link that writes down what it answers before it does, and ends its process at a word."""

    def __init__(self, home, at, *of, **more):
        super().__init__(*of, **more)
        self.home, self.at = home, at

    def answer(self, number, data):
        word, before = self.at or (0, True)
        if number == word and before:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.home / "answers", "ab") as file:
            file.write(cbor2.dumps([number, data]))
        super().answer(number, data)
        if number == word:
            os.kill(os.getpid(), signal.SIGKILL)


def client(folder, port, name, me, at):
    """A life of a client."""
    home = folder / f"client {me}"
    home.mkdir(exist_ok=True)
    logging_to(home / "log")
    own, aside = keys_of(folder, name, me), None
    link = Watched(home, at, f"127.0.0.1:{port}", own, me if own is None else None, patience=LONGEST)
    if name == "two servers":
        aside = Aside(Dialled(f"127.0.0.1:{port_of(folder)}", own, patience=LONGEST, server=SECOND_SERVER))
    for _ in join(SCENARIOS[name], link, home, aside=aside):
        pass


def port_of(folder):
    """Where the second server listens, in all of its lives."""
    return int((folder / "second port").read_text())


def second(folder, port, name, me, at):
    """A life of the second server."""
    home = folder / f"client {me}"
    home.mkdir(exist_ok=True)
    logging_to(home / "log")
    link = Watched(home, at, f"127.0.0.1:{port}", keys_of(folder, name, me), patience=LONGEST)
    where = ListeningAside(f"127.0.0.1:{port_of(folder)}", Limits(patience=10.0, back=3.0))
    for _ in second_server(SCENARIOS[name].protection, link, home / "journal", where):
        pass


# --- a play ---------------------------------------------------------------------------------------------------------------


def ended(pid, seconds):
    """How a process ended; None of one that did not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.02)
    return None


def killed(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def play(folder, name, kills):
    """One run, with these kills, and the verdict on it."""
    verdict, port = Verdict(), free_port()
    kills = list(kills)
    wanted = {kill.client[0]: kill.client[1:] for kill in kills if kill.client is not None}
    two = name == "two servers"
    if name in KEYED:
        office.init(folder / "pki", "kills", len(CLIENTS), ["127.0.0.1"], two_servers=two, now=int(time.time()))
    if two:
        (folder / "second port").write_text(str(free_port()))
    plays = {SECOND_SERVER: second} if two else {}
    clients = {i: forked(plays.get(i, client), folder, port, name, i, wanted.get(i)) for i in (*CLIENTS, *plays)}
    try:
        while True:
            kill = kills.pop(0) if kills else Kill(None, None)
            life = forked(coordinator, folder, port, name, kill.frames)
            begun, status = time.monotonic(), None
            while status is None and time.monotonic() - begun < LONGEST:
                if kill.seconds is not None and time.monotonic() - begun > kill.seconds:
                    os.kill(life, signal.SIGKILL)
                    kill = replace(kill, seconds=None)
                status = ended(life, 0.05)
                for i, pid in clients.items():
                    if pid and (found := os.waitpid(pid, os.WNOHANG)) != (0, 0):
                        died = os.WIFSIGNALED(found[1])
                        verdict.counts["kills of clients" if i >= 0 else "kills of second servers"] += died
                        clients[i] = forked(plays.get(i, client), folder, port, name, i, None) if died else 0
                        if not died and found[1]:
                            verdict.wrong.append(f"client {i} gave up: {(folder / f'client {i}/log').read_text()[-300:]}")
            if status is None:
                killed(life)
                verdict.counts["hangs"] += 1
                verdict.wrong.append("a life of the coordinator hangs")
                return verdict
            if os.WIFSIGNALED(status):
                verdict.counts["kills of coordinators"] += 1
                continue
            if status and "a run that is over" in (folder / "coordinator.log").read_text()[-500:]:
                break  # it was killed when all was done
            if status:
                verdict.wrong.append(f"the coordinator gave up: {(folder / 'coordinator.log').read_text()[-500:]}")
                return verdict
            break
        for i, pid in clients.items():
            if pid:
                found = ended(pid, 30)
                clients[i] = pid if found is None else 0
                if found is None or found:
                    verdict.counts["hangs"] += found is None
                    verdict.wrong.append(f"client {i} did not end: {(folder / f'client {i}/log').read_text()[-300:]}")
    finally:
        for pid in clients.values():
            if pid:
                killed(pid)
    judge(folder, name, verdict)
    return verdict


# --- the verdict ----------------------------------------------------------------------------------------------------------

_simulated: dict = {}


def survivors(folder, name):
    """Of each round, whom its sum was about. Of shares, that they came is no sum."""
    log = [json.loads(line) for line in (folder / "disclosure.jsonl").read_text().splitlines()]
    summed = ("sums",) if name == "two servers" else ("sums", "updates")
    found = {}
    for line in log:
        if line["recipient"] == "second server":  # it is told whose sum is asked for, and perhaps not heard of again
            continue
        if line["what"] in summed or (line["what"], line["recipient"]) == ("slots", "clients"):  # counts come first
            found.setdefault(line["round"], set()).update(line["about"])
    return {t: tuple(sorted(found.get(t, ()))) for t in range(ROUNDS)}


def simulated(name, alive):
    """The model of a run in one process whose sums are about the same clients; None where there is no such run.

    Who is not in a sum fell silent before it was proposed or after: both are tried, as the first may leave too few for a sum. In
    a round without one all did before.
    """
    key = name, tuple(alive.items())
    if key not in _simulated:
        words = SILENCES.get(name, MASKED)
        aborted = {(t, i): words[0] for t, who in alive.items() for i in CLIENTS if not who}
        lost = [(t, i) for t, who in alive.items() for i in CLIENTS if who and i not in who]
        tried = (
            _played(name, aborted | dict(zip(lost, at, strict=True)))
            for at in itertools.product(words, repeat=min(len(lost), MOST_LOST))
        )
        _simulated[key] = None if len(lost) > MOST_LOST else next((model for found, model in tried if found == alive), None)
    return _simulated[key]


def _played(name, lost):
    """Whom the sums of a simulation were about, and its model. lost: by round and client, the word at which it falls silent."""
    now = {"round": 0}

    def fate(frame):
        return [] if frame.kind == lost.get((now["round"], frame.sender)) else [frame]

    with tempfile.TemporaryDirectory() as place:
        for done in run(replace(SCENARIOS[name], faults=fate), Path(place) / "run"):
            now["round"] = done.round
        return survivors(Path(place) / "run", name), models_in(Path(place) / "run/models")


def models_in(folder):
    """All of a run's, by name and part."""
    files = sorted(folder.glob("*.safetensors"))
    return {(path.stem, part): tensor for path in files for part, tensor in load_file(path).items()}


def owned(folder, verdict):
    """The one model that clients own, as all of them have it that have one."""
    files = [folder / f"client {i}/model.safetensors" for i in CLIENTS]
    found = [load_file(path) for path in files if path.exists()]
    if len(found) < len(CLIENTS) and not verdict.counts["kills of clients"]:
        verdict.wrong.append("no client was killed, and some have no model")
    if any((model[part] != tensor).any() for model in found for part, tensor in found[0].items()):
        verdict.wrong.append("clients have different models")
    return {("0", part): tensor for part, tensor in found[0].items()}


def judge(folder, name, verdict):
    """Right sums, and nothing said twice or opened."""
    alive = survivors(folder / "served", name)
    verdict.counts["rounds"] += ROUNDS
    verdict.counts["aborted"] += sum(not who for who in alive.values())
    found = models_in(folder / "served/models") or owned(folder, verdict)
    expected = simulated(name, alive)
    right = expected is not None and found.keys() == expected.keys()
    right = right and all(np.abs(found[part] - tensor).max() < 1e-5 for part, tensor in expected.items())
    verdict.counts["right"] += sum(bool(who) for who in alive.values()) if right else 0
    if not right:
        verdict.wrong.append(f"the model is not that of a simulation of {alive}")
    if not (verdict.counts["kills of clients"] or verdict.counts["kills of second servers"]) and any(
        who != CLIENTS for who in alive.values()
    ):
        verdict.wrong.append(f"no client was killed, and some were left out: {alive}")
    if name in ASKED:
        told = [json.loads(line)["accuracy"] for line in (folder / "served/metrics.jsonl").read_text().splitlines()]
        verdict.counts["scores"] += sum(map(len, told))
        if not verdict.counts["kills of clients"] and any(len(scores) < len(CLIENTS) for scores in told):
            verdict.wrong.append("no client was killed, and some did not say how well they predict")
    verdict.counts["lost inputs"] += sum(len(CLIENTS) - len(who) for who in alive.values())
    check_answers(folder, verdict)


def check_answers(folder, verdict):
    """From all that clients ever answered."""
    shown: dict = {}
    sets: dict = {}
    for i in CLIENTS:
        once: dict = {}
        file = folder / f"client {i}/answers"
        with open(file, "rb") as answers:
            while answers.tell() < file.stat().st_size:
                number, data = cbor2.load(answers)
                if once.setdefault(number, data) != data:
                    verdict.counts["double answers"] += 1
        frames = {hashlib.sha256(data).digest(): data for data in once.values()}
        for data in frames.values():
            plain = cbor2.loads(data)
            for _, kind, frame in plain[0] if isinstance(plain, list) and len(plain) == 3 and isinstance(plain[0], list) else ():
                if kind == "Reveal":
                    envelope = decode(frame, i, 1 << 30)
                    reveal = envelope.message
                    assert isinstance(reveal, Reveal)
                    for victim in reveal.alive:
                        shown.setdefault((envelope.session, victim), set()).add("seed")
                    for victim in reveal.dropped:
                        shown.setdefault((envelope.session, victim), set()).add("key")
                    sets.setdefault((i, envelope.session), set()).add((reveal.alive, reveal.dropped))
    verdict.counts["opened"] += sum(len(kinds) > 1 for kinds in shown.values()) + sum(len(found) > 1 for found in sets.values())


# --- many plays -----------------------------------------------------------------------------------------------------------


def drawn(draw, number, two=False):
    """The kills of a play: of the coordinator at frames and at times, in every third play of clients too, and where there are two
    servers in every third of the second one.
    """
    kills = []
    for _ in range(draw.randint(3, 8)):
        at_frame = draw.random() < 0.7
        kills.append(Kill(draw.randint(1, 60 if two else 260), None) if at_frame else Kill(None, draw.uniform(0.2, 3.0)))
    if number % 3 == 2:
        for kill, victim in zip(kills, draw.sample(CLIENTS, min(len(kills), 2)), strict=False):
            kill.client = victim, draw.randint(1, 12 if two else 40), draw.random() < 0.5
    if two and number % 3 == 1:
        kills[0].client = SECOND_SERVER, draw.randint(1, 12), draw.random() < 0.5
    return kills


def drawn_at_first(draw):
    """The kills of a play in the exchange of the run's seed: of the coordinator at frames, of up to five clients at words."""
    kills = [Kill(draw.randint(1, FIRST_FRAMES), None) for _ in range(draw.randint(1, 5))]
    for kill, victim in zip(kills, draw.sample(CLIENTS, len(kills)), strict=True):
        kill.client = victim, draw.randint(1, FIRST_WORDS), draw.random() < 0.5
    return kills


def main():
    """Play until there were so many kills."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=SCENARIOS)
    options.add_argument("--seconds", type=float, default=3600.0)
    asked = options.parse_args()
    torch.set_num_threads(1)  # a life that is forked would wait for threads that its parent alone has
    draw, total, wrong, plays, begun = random.Random(asked.seed), Counter(), [], 0, time.monotonic()
    while total["kills"] < asked.kills and time.monotonic() - begun < asked.seconds:
        name = asked.only or ("masked", "plain")[plays % 4 == 3]
        kills = drawn_at_first(draw) if name == "seed" else drawn(draw, plays, name == "two servers")
        with tempfile.TemporaryDirectory() as place:
            verdict = play(Path(place), name, kills)
        total += verdict.counts
        total["kills"] = sum(total[of] for of in KILLED)
        wrong += [{"play": plays, "protection": name, "what": what, "kills": repr(kills)} for what in verdict.wrong]
        plays += 1
        sys.stderr.write(f"play {plays} ({name}): {dict(verdict.counts)} {verdict.wrong}\n")
    shown = {key: total[key] for key in (*KILLED, "rounds", "right", "aborted", "lost inputs")}
    shown |= {key: total[key] for key in ("hangs", "double answers", "opened", "scores")}
    sys.stdout.write(
        json.dumps(
            {"plays": plays, "kills": total["kills"], **shown, "wrong": wrong, "seconds": round(time.monotonic() - begun)},
            indent=1,
        )
        + "\n"
    )
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
