"""Clients behind a link, a client's half: what it answers to a word of its coordinator, whatever that says.

The coordinator's half is `linked`. A client takes frames of the coordinator alone, and answers nothing that only whoever plays a
simulation may ask (its models, its keys, what it keeps).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import cbor2

from ..core.errors import Refused
from ..core.session import SECOND_SERVER, SERVER
from ..wire.codec import Buffer, encoding_of, plain_in
from ..wire.messages import MAX_MODELS
from .driving import EMPTY, Driven
from .far import answer
from .uploads import to_bytes

SERVED = frozenset({"frame", "deadline", "hello", "public", "enrol", "left out", "holds", "begin", "alone", "drop", "final"})
"""Words that a client behind a link answers."""
BEFORE = {"masked sum/weights/": "weights", "masked sum/slot counts": "counts", EMPTY: "empty"}
"""By how the name of a protocol begins, what its messages are of, where that is no update; of a score, that it says nothing."""
INTO_SLOTS = "masked sum/slots "
"""How the protocol of a sum into slots begins: a bitmap of those that are open follows, which the client has checked."""
NOTHING: list[list[Any]] = [[], [], []]
NOT_YET = {"deadline": NOTHING, "hello": NOTHING, "left out": [], "holds": False, "begin": False, "alone": False, "drop": False}
"""What a client answers that was not told yet who is who: it came in the middle of a round, which is nobody's fault."""


@dataclass(frozen=True, slots=True)
class Said:
    """A client's answer to a word. word: what it was told. data: the answer. sent: kinds and bytes of its messages. learned:
    names of sums that it was sent. refused: (blame, reason) of what it took no notice of. final: its models, at the end.

    kind: of a frame, the message in it; empty where that cannot be read. carried: whether it brought a model, a mean or a sum.
    round: of the last task, of work for itself alone, or that is over when it is asked how well it predicts, counted from 0; None
    before one. told: of a frame, its bytes. aside: what it has for a second server, as (kind, frame): not in the answer, as it
    goes by a link of its own. among, declined: as in `Driven`. open: of an input to a sum into slots, those that are open; None
    of anything else.
    """

    word: str
    data: bytes = field(repr=False)
    sent: tuple[tuple[str, int], ...] = ()
    learned: tuple[str, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    final: tuple[bytes, ...] = field(default=(), repr=False)
    kind: str = ""
    carried: bool = False
    round: int | None = None
    told: Buffer = field(default=b"", repr=False)
    aside: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    among: tuple[int, ...] = ()
    declined: str = ""
    open: tuple[int, ...] | None = None


def said(driven: Driven, data: Buffer) -> Said:
    """What a client answers to a word of its coordinator, whatever that says. Nothing that it is told ends its program."""
    try:
        what, *of = plain_in(data, lent=True)
    except (TypeError, ValueError):
        return _refused("", "a word that is none")
    if type(what) is not str or what not in SERVED:
        return _refused(f"{what!s:.20}", "a word that no coordinator has a right to")
    if what == "frame" and of[:1] != [SERVER]:
        return _refused(what, "a frame of another party than its link's")
    if what == "enrol" and driven.client.roles:
        if of == [driven.client.admission[0]]:  # it was killed before its link's entry had the word
            return Said(what, cbor2.dumps(True))
        return _refused(what, "others' identities a second time, and not the same")
    if what == "final":
        models = tuple(_final(driven, model) for model in of[:MAX_MODELS])
        right = 0 < len(models) == len(of) and all(models)
        return Said(what, cbor2.dumps(NOTHING), final=models) if right else _refused(what, "a model that is none")
    if what in NOT_YET and not driven.client.roles:
        return Said(what, cbor2.dumps(NOT_YET[what]))
    try:
        found = answer(driven, what, *of)
    except Refused as error:
        return _refused(what, str(error))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return _refused(what, f"a word that this client could not take: {type(error).__name__}")
    if what not in ("frame", "deadline", "hello"):
        return Said(what, cbor2.dumps(found), round=of[0] if what == "alone" and type(of[0]) is int else None)
    sent, learned, refused = found
    here = [message for message in sent if message[0] != SECOND_SERVER]
    aside = tuple((kind, frame) for receiver, kind, frame in sent if receiver == SECOND_SERVER)
    of_what = [of for (receiver, _, _), of in zip(sent, driven.protocols, strict=True) if receiver != SECOND_SERVER]
    words = tuple((_named(kind, of), len(frame)) for (_, kind, frame), of in zip(here, of_what, strict=True))
    names = tuple(name for name, _ in learned)
    told = of[1] if what == "frame" else b""
    kind = driven.heard if what == "frame" else ""
    answered = b"".join(encoding_of([here, learned, refused]))
    carried = bool(kind) and driven.carried
    at = driven.scored if what == "frame" and driven.scored is not None else driven.asked
    whole = Said(what, answered, words, names, tuple(map(tuple, refused)), (), kind, carried, at, told, aside)
    inputs = [of for (_, kind, _), of in zip(here, of_what, strict=True) if kind == "MaskedInput" and of.startswith(INTO_SLOTS)]
    opened = _open_slots(inputs[0]) if inputs else None
    return replace(whole, among=driven.among if kind else (), declined=driven.declined, open=opened)


def _named(kind: str, protocol: str) -> str:
    """Of a message: its kind, and that it is in a sum of weights or of choices, which come before updates, or says nothing."""
    return ", ".join([kind, *(words for name, words in BEFORE.items() if protocol.startswith(name))])


def _open_slots(protocol: str) -> tuple[int, ...]:
    """Of the name of a sum into slots that a client put its input in."""
    bits = int(protocol.removeprefix(INTO_SLOTS).split(" ")[0], 16)
    return tuple(slot for slot in range(bits.bit_length()) if bits >> slot & 1)


def _final(driven: Driven, model: Any) -> bytes:
    """A model as it came, or one that the client holds, by its name; empty for what is neither."""
    if type(model) in (bytes, memoryview):
        return bytes(model) if len(model) % 4 == 0 else b""
    held = driven.client.model(model) if type(model) is str and driven.client.seated else None
    return b"" if held is None else to_bytes(held)


def _refused(what: str, reason: str) -> Said:
    """That a word is not taken, as what follows from it."""
    return Said(what, cbor2.dumps([[], [], [[SERVER, reason]]]), refused=((SERVER, reason),))
