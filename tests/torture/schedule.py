"""What happens when: a schedule, drawn from a seed or written by hand. Its repr is what makes it again.

Words and pieces are counted for each client from 0, from when the run has begun (or, `early`, from the first word at all). A
piece is a word or an answer on a client's connection, each time that it is sent.
"""

import math
import random
from dataclasses import dataclass

NEVER = math.inf
PROTECTIONS = ("masked", "two servers", "encrypted", "pairs")
SHARES = (0.44, 0.27, 0.01, 0.28)
"""Of schedules, by protection: an encrypted round costs as much as twenty of the others."""
KINDS = ("MaskKeys", "SealedShares", "Accepted", "MaskedInput", "SurvivorSignature", "Reveal")
"""What a client says in a masked sum, stage by stage."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks with this piece, which is lost, and is back after so many seconds."""

    client: int
    piece: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Slow:
    """The piece takes so many seconds longer; those behind it wait."""

    client: int
    piece: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Twice:
    """The piece arrives twice."""

    client: int
    piece: int


@dataclass(frozen=True, slots=True)
class Again:
    """The client's program is handed the word once more, `after` words later, and what it says goes to the coordinator, too."""

    client: int
    word: int
    after: int


@dataclass(frozen=True, slots=True)
class Swap:
    """The word after this one overtakes it on the way to the client's program."""

    client: int
    word: int


@dataclass(frozen=True, slots=True)
class Apart:
    """These clients cannot reach the coordinator from then on, for so many seconds."""

    clients: tuple[int, ...]
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Crash:
    """The client's process is killed at this word, and started again from its journal so many seconds later.

    when: "before" it takes the word; at its nth write, which is lost ("torn n") or done ("stored n"); "after" all is stored and
    before the answer leaves; "sent": when it has left.
    """

    client: int
    word: int
    when: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Freeze:
    """The client's machine stands still for so many seconds before it takes the word."""

    client: int
    word: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing is heard of the client any more from its first message of this kind on, until the calm round."""

    client: int
    kind: str


@dataclass(frozen=True, slots=True)
class Older:
    """When the client is started again the next time, its journal is a copy of so many writes before."""

    client: int
    writes: int


@dataclass(frozen=True, slots=True)
class Fall:
    """The coordinator's process is killed when it posts its nth word: the round is lost, and asked again from the checkpoint."""

    word: int


@dataclass(frozen=True, slots=True)
class Fate:
    """The nth frame of this kind at the coordinator is dropped ("drop"), comes after its stage ("late"), long after, perhaps in
    another session ("stale"), or twice ("replay").
    """

    kind: str
    nth: int
    fate: str


@dataclass(frozen=True, slots=True)
class Lie:
    """The server lies with its nth frame of this kind: by another survivor set beside ("beside") or in place of the right one
    ("instead"), that of the frame before of this kind, of whatever session, just before it ("earlier"), or the same under its own
    session ("relabelled").
    """

    kind: str
    nth: int
    how: str


@dataclass(frozen=True, slots=True)
class Garble:
    """The client that helps the server changes a byte of its nth message of this kind. at: where, as a share of its length."""

    kind: str
    nth: int
    at: float


Event = Cut | Slow | Twice | Again | Swap | Apart | Crash | Freeze | Silent | Older | Fall | Fate | Lie | Garble


@dataclass(frozen=True, slots=True)
class Schedule:
    """protection: one of `PROTECTIONS`. clients: how many. rounds: in which events happen; a calm one follows if `calm`.

    floor: fewest clients in a sum. seed: of secrets and, with `jitter`, of how long each piece and each work takes. again: each
    sum is asked for twice. colluder: the client that helps the server, if one does. early: events may happen from the first word
    on, before the run has begun.
    """

    protection: str
    events: tuple[Event, ...] = ()
    clients: int = 4
    rounds: int = 1
    seed: int = 0
    calm: bool = True
    again: bool = False
    colluder: int | None = None
    floor: int = 2
    jitter: bool = False
    early: bool = False


WORDS = {"masked": 10, "two servers": 3, "encrypted": 8, "pairs": 10}
"""To one client in one round: about as many as there are."""
ASKED = ("Task", "Proposal", "NeighbourKeys", "RelayedShares", "MaskWith", "Survivors", "UnmaskRequest", "RoundOver")
FRAMES = {
    "masked": (*ASKED, "Ready", *KINDS),
    "two servers": ("Task", "KeyShare", "ExplicitShare", "Held", "Agreed", "SumQuestion", "SumAnswer"),
    "encrypted": (
        "Task",
        "Ready",
        "KeyRequest",
        "OfferedKey",
        "EncryptedSumRequest",
        "EncryptedInput",
        "EncryptedSum",
        "SumOpened",
    ),
    "pairs": ("Task", "Upload", "PairOffer", "PairKey", "PairClouds", "PairEdge"),
}
"""Kinds that a fate may befall."""
LIES = ("earlier", "relabelled")


def drawn(seed: int, protection: str | None = None, older: bool = False) -> Schedule:
    """The schedule of this seed. older: whether journals may be put back as older copies."""
    rng = random.Random(f"schedule {seed}")
    which = rng.choices(PROTECTIONS, SHARES)[0] if protection is None else protection
    colluding = which == "masked" and rng.random() < 0.2
    count = 6 if colluding else 4
    colluder = rng.randrange(count) if colluding else None
    rounds = 1 if rng.random() < 0.8 else 2
    mood = rng.choices(("few", "many", "seldom online", "lies"), (0.5, 0.25, 0.1, 0.15 if which == "masked" else 0))[0]
    events: list[Event] = []
    if mood == "seldom online":
        for client in range(count):
            events += _mostly_away(rng, client, rounds)
    how_many = rng.randint(1, 3) if mood != "many" else rng.randint(4, 10)
    for _ in range(how_many):
        events.append(_event(rng, which, count, rounds, colluder, mood == "lies", older))
    return Schedule(
        which,
        tuple(events),
        count,
        rounds,
        seed,
        calm=rng.random() < 0.4,
        again=rng.random() < 0.2,
        colluder=colluder,
        floor=rng.choice((2, 3)),
        jitter=rng.random() < 0.8,
        early=rng.random() < 0.05,
    )


def _mostly_away(rng: random.Random, client: int, rounds: int) -> list[Event]:
    """A fifth of the time online: in turns of a few seconds."""
    time, found = rng.uniform(0, 20), list[Event]()
    while time < 60 * rounds:
        away = rng.uniform(2, 30)
        found.append(Apart((client,), round(time, 2), round(away, 2)))
        time += 1.25 * away
    return found


def _event(rng: random.Random, which: str, clients: int, rounds: int, colluder: int | None, lies: bool, older: bool) -> Event:
    client, piece, word = rng.randrange(clients), rng.randrange(2 * WORDS[which] * rounds), rng.randrange(WORDS[which] * rounds)
    seconds = rng.choice((0.0, 0.3, 2.0, 4.0, 7.0, 15.0, 90.0, NEVER))
    kinds = [
        "cut",
        "slow",
        "twice",
        "again",
        "swap",
        "apart",
        "crash",
        "crash",
        "crash",
        "freeze",
        "silent",
        "fall",
        "fate",
        "fate",
    ]
    kinds += ["garble"] * 4 * (colluder is not None) + ["lie"] * 15 * lies + ["older"] * 6 * older
    match rng.choice(kinds):
        case "cut":
            return Cut(client, piece, seconds)
        case "slow":
            return Slow(client, piece, min(seconds, 90.0))
        case "twice":
            return Twice(client, piece)
        case "again":
            return Again(client, word, rng.randrange(4))
        case "swap":
            return Swap(client, word)
        case "apart":
            some = tuple(sorted(rng.sample(range(clients), rng.randint(1, clients))))
            return Apart(some, round(rng.uniform(0, 2 * rounds), 2), min(seconds, 90.0))
        case "crash":
            writes = rng.choice((0, 0, 0, 1, 2))
            return Crash(client, word, rng.choice(("before", f"torn {writes}", f"stored {writes}", "after", "sent")), seconds)
        case "freeze":
            return Freeze(client, word, min(seconds, 90.0))
        case "silent":
            return Silent(client, rng.choice(KINDS))
        case "fall":
            return Fall(rng.randrange(WORDS[which] * clients * rounds))
        case "fate":
            return Fate(
                rng.choice(FRAMES[which]), rng.randrange(clients * rounds), rng.choice(("drop", "late", "stale", "replay"))
            )
        case "lie":
            kind = rng.choice(
                ("Survivors", "Survivors", "Survivors", "UnmaskRequest", "RelayedShares", "NeighbourKeys", "Proposal")
            )
            how = rng.choice(("beside", "instead", "earlier", "relabelled")) if kind == "Survivors" else rng.choice(LIES)
            return Lie(kind, rng.randrange(clients * rounds), how)
        case "garble":
            return Garble(rng.choice(KINDS), rng.randrange(2 * rounds), round(rng.random(), 3))
    return Older(client, rng.randint(1, 6))
