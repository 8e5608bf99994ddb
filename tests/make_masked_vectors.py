"""The test vectors of the masked sum: one small session with all that is secret in it, and messages that must be refused.

Written by make_vectors.py. Four clients, of whom 6 falls silent before its input, so that shares of both kinds are handed out.
"""

from dataclasses import fields, replace

import cbor2
import numpy as np

from cloister.crypto.agreement import AgreementKey
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.masks import mask
from cloister.crypto.prg import derive_key
from cloister.crypto.shamir import MaskKeyShare, SelfSeedShare, split
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Party, Perform, Received, Worked
from cloister.protocol.masked.messages import Accepted, MaskedInput, MaskKeys, Reveal
from cloister.protocol.masked.server import Advertising, server_step
from cloister.protocol.masked.sum import Plan, SumPolicy, SumTerms, Unmasked, masked_sum, parties_of
from cloister.protocol.masked.terms import encode_weights, survivors_and_head
from cloister.protocol.masked.transcript import Transcript
from cloister.protocol.messages import decode
from cloister.protocol.parts.charter import Charter, NoiseTerms, Numbers
from cloister.protocol.parts.members import Members
from cloister.protocol.wire.codec import Envelope, encode

SEED = 2020
ENTROPY = SimulatedEntropy(SEED)
LIMIT = 1 << 20
ROSTER = (1, 4, 6, 9)
SILENT = 6
SESSION = Session("masked sum/update", bytes(range(16)), 3, "root", ROSTER, 3)
WEIGHTS = {1: 1.0, 4: 1.0, 6: 1.0, 9: -1.0}
MODEL, UPDATE, GRAPH = bytes(range(32)), bytes(range(32, 64)), bytes(32)
TERMS = SumTerms(32, 3, 8, 1.0, 16, 3, 2, GRAPH, MODEL, UPDATE, encode_weights(ROSTER, WEIGHTS), 1)
POLICY = SumPolicy(min_survivors=3)
MEMBERS = Members.enrol(ROSTER, ENTROPY)
CHARTER = Charter(SESSION.run, MODEL, Numbers(1, 32, 1.0, 10, POLICY.rules), None, MEMBERS.enrolled)
NOISE = NoiseTerms(6.0, 1e-4, 3, 0.5, "zero out", 1e-6, ("gram",))
NOISY = replace(CHARTER, numbers=replace(CHARTER.numbers, noise=NOISE), dropped=0.25)
PLAN = Plan.of(SESSION, TERMS, CHARTER)
INPUTS = {i: np.array([i, 100 + i, 4000 - i], np.uint32) for i in ROSTER}


def clients():
    parties = parties_of(MEMBERS, CHARTER, MODEL, POLICY, ENTROPY)
    for party in parties.values():
        party.state = replace(party.state, updates={UPDATE: SESSION.round})
    return parties


def play():
    """The session's end and its frames, without the silent client's later ones."""
    frames = []

    def tap(frame):
        if frame.sender == SILENT and frame.kind == "MaskedInput":
            return []
        frames.append(frame)
        return [frame]

    end, network = masked_sum(PLAN, clients(), INPUTS.__getitem__, tap)
    if not isinstance(end, Unmasked) or network.faults:
        raise ValueError("the session of the vectors fails")
    return end, frames


END, FRAMES = play()


def secrets(client):
    """A client's secrets of the session, and what follows from each."""
    root = ENTROPY.secret(f"masked sum {client} {PLAN.binding.hex()}", 32)
    seed, mask_key, seal_key = (derive_key(root, purpose, PLAN.binding) for purpose in ("self seed", "mask key", "sealing key"))
    others = tuple(i for i in ROSTER if i != client)
    publics = {i: keys_of(i).public for i in others}
    pairs = AgreementKey(mask_key).agree([(publics[i], PLAN.pair(client, i)) for i in others], "pair mask")
    own = PLAN.self_mask_key(client, seed)
    sharings = [split(kind, secret, TERMS.threshold, others, PLAN.dealt_by(client)) for kind, secret in
                ((SelfSeedShare, seed), (MaskKeyShare, mask_key))]  # fmt: skip
    return {
        "client": client,
        "identity": MEMBERS.identities[client].secret,
        "enrolled": MEMBERS.enrolled[client],
        "root": root,
        "self_seed": seed,
        "mask_key": mask_key,
        "mask_public": AgreementKey(mask_key).public,
        "sealing_key": seal_key,
        "seal_public": AgreementKey(seal_key).public,
        "self_mask_key": own,
        "self_mask": mask(own, TERMS.length, np.uint32).tolist(),
        "pair_mask_keys": {str(i): key for i, key in zip(others, pairs, strict=True)},
        "self_seed_shares": [share.encode() for share in sharings[0].shares],
        "mask_key_shares": [share.encode() for share in sharings[1].shares],
        "input": INPUTS[client].tolist(),
    }


def keys_of(client):
    root = ENTROPY.secret(f"masked sum {client} {PLAN.binding.hex()}", 32)
    return AgreementKey(derive_key(root, "mask key", PLAN.binding))


def transcript_of(client):
    """Its chain of this session: the encoded steps, and the head after each."""
    gave = Transcript(CHARTER, client).at(SESSION.round).gave(PLAN, POLICY.rules)
    signed = gave.signed(PLAN, END.clients, POLICY.rules)
    return {"client": client, "steps": [gave.step, signed.step], "heads": [gave.head, signed.head]}


def session():
    terms = {f.name: getattr(TERMS, f.name) for f in fields(TERMS)}
    return {
        "entropy_seed": SEED,
        "labels": ["identity ID", "masked sum ID BINDING"],
        "session": {**{f.name: getattr(SESSION, f.name) for f in fields(SESSION) if f.init}, "digest": SESSION.digest},
        "terms": {**terms, "digest": TERMS.digest},
        "charter": {"encoded": CHARTER.encoded, "digest": CHARTER.digest},
        "charter_with_noise": {"encoded": NOISY.encoded, "digest": NOISY.digest},
        "binding": PLAN.binding,
        "transcript": transcript_of(1),
        "silent_before_its_input": SILENT,
        "clients": [secrets(client) for client in ROSTER],
        "frames": [{"kind": f.kind, "sender": f.sender, "receiver": f.receiver, "bytes": f.data} for f in FRAMES],
        "survivors": END.clients,
        "survivors_digest": survivors_and_head(END.clients, b""),
        "sum": END.total.tolist(),
    }


# --- messages that must be refused ------------------------------------------------------------------------------------------


def number_of(kind, client):
    """The place in the transcript of the one message of this kind from or to a client."""
    (number,) = (n for n, f in enumerate(FRAMES) if f.kind == kind and client in (f.sender, f.receiver))
    return number


def before(number):
    """The parties as they are when all frames before this one were delivered: the server, and the clients by id."""
    server, parties, opened = Party(SERVER, Advertising(PLAN), server_step), clients(), {"Proposal"}
    for at, frame in enumerate(FRAMES[: number + 1]):
        if frame.sender == SERVER and frame.kind not in opened:
            opened.add(frame.kind)
            server.handle(Deadline())
        if at < number:
            receiver = server if frame.receiver == SERVER else parties[frame.receiver]
            effects = receiver.handle(Received(decode(frame.data, frame.sender, LIMIT)))
            if any(isinstance(effect, Perform) for effect in effects):
                receiver.handle(Worked(INPUTS[receiver.id], 1))
    return server, parties


def refusal(number, data):
    """Where and why the frame's receiver refuses these bytes in its stead; its state must stay as it was."""
    frame = FRAMES[number]
    try:
        envelope = decode(data, frame.sender, LIMIT)
    except ProtocolError as error:
        return {"must_fail_in": "decode", "blame": error.blame, "reason": error.reason}
    server, parties = before(number)
    party = server if frame.receiver == SERVER else parties[frame.receiver]
    state = party.state
    try:
        party.handle(Received(envelope))
    except ProtocolError as error:
        if party.state is not state:
            raise ValueError("a refusal changed a state") from None
        return {"must_fail_in": type(state).__name__, "blame": error.blame, "reason": error.reason}
    raise ValueError(f"{frame.kind} {number} is not refused")


def signed(client, purpose, content):
    return MEMBERS.identities[client].sign(purpose, PLAN.binding, content)


def low_order():
    """A client's signature under a key that nothing can be agreed on with."""
    seal = decode(FRAMES[number_of("MaskKeys", 4)].data, 4, LIMIT).message.seal_public
    return MaskKeys(bytes(32), seal, signed(4, "masked sum keys", bytes(32) + seal))


def changes():
    """name -> (kind, client, changed fields or a whole message): in the client's message, or the server's to it."""
    message = {(f.kind, c): decode(f.data, f.sender, LIMIT).message for f in FRAMES for c in (f.sender, f.receiver) if c >= 0}
    keys, shares, relayed = message["NeighbourKeys", 1], message["SealedShares", 4], message["RelayedShares", 1]
    asked, reveal, masked_input = message["UnmaskRequest", 1], message["Reveal", 9], message["MaskedInput", 4]
    heads = dict(zip((4, *asked.signers), (message["SurvivorSignature", 4].head, *asked.heads), strict=True))
    other_set = tuple(signed(i, "masked sum survivors", survivors_and_head((1, 4, 6, 9), heads[i])) for i in asked.signers)
    foreign = reveal.seeds[0][:1] + (1).to_bytes(4, "big") + reveal.seeds[0][5:]
    return {
        "another model": ("Proposal", 1, {"model": bytes(32)}),
        "another run": ("Proposal", 1, {"run": bytes(16)}),
        "another round than the digest's": ("Proposal", 1, {"round": 4}),
        "an update that is not held": ("Proposal", 1, {"update": bytes(31) + b"\x01"}),
        "no update": ("Proposal", 1, {"update": bytes(32)}),
        "a clip that is not a number": ("Proposal", 1, {"clip": b"\x7f\xf8" + bytes(6)}),
        "weights that could wrap around": ("Proposal", 1, {"max_weight": 2**24}),
        "a share threshold of one": ("Proposal", 1, {"share_threshold": 1}),
        "a weight for two clients only": ("Proposal", 1, {"weights": encode_weights(ROSTER, {1: 1.0, 9: 1.0})}),
        "a weight that is not finite": ("Proposal", 1, {"weights": encode_weights(ROSTER, {1: float("inf")})}),
        "weights for another roster": ("Proposal", 1, {"weights": bytes(24)}),
        "samples counted twice": ("Proposal", 1, {"times_samples": 2}),
        "keys with another's signature": ("MaskKeys", 4, {"signature": message["MaskKeys", 9].signature}),
        "a signed key of low order": ("MaskKeys", 4, low_order()),
        "an input where keys belong": ("MaskKeys", 4, masked_input),
        "a swapped mask key": ("NeighbourKeys", 1, {"mask_publics": (keys.seal_publics[0], *keys.mask_publics[1:])}),
        "swapped neighbours": ("NeighbourKeys", 1, {"signatures": keys.signatures[::-1]}),
        "keys of a stranger": ("NeighbourKeys", 1, {"neighbours": (4, 6, 10)}),
        "keys of too few": ("NeighbourKeys", 1, {f.name: getattr(keys, f.name)[:1] for f in fields(keys)}),
        "neighbours out of order": ("NeighbourKeys", 1, {"neighbours": (6, 4, 9)}),
        "an unsigned dealing": ("SealedShares", 4, {"signature": bytes(64)}),
        "a dealing for fewer": ("SealedShares", 4, {"dealing": shares.dealing[:136], "sealed": shares.sealed[:2]}),
        "a seal too few": ("SealedShares", 4, {"sealed": shares.sealed[:2]}),
        "shares of too few": ("RelayedShares", 1, {f.name: getattr(relayed, f.name)[:1] for f in fields(relayed)}),
        "shares of a stranger": ("RelayedShares", 1, {"dealers": (4, 6, 10)}),
        "good shares of a stranger": ("Accepted", 4, {"dealers": (1, 5)}),
        "good shares of its own": ("Accepted", 4, {"dealers": (1, 4)}),
        "too few to mask with": ("MaskWith", 1, {"neighbours": (4,)}),
        "a stranger to mask with": ("MaskWith", 1, {"neighbours": (4, 6, 10)}),
        "an input too short": ("MaskedInput", 4, {"vector": bytes(masked_input.vector[:-4])}),
        "an input of half a word": ("MaskedInput", 4, {"vector": bytes(masked_input.vector[:-2])}),
        "survivors without their client": ("Survivors", 1, {"alive": (4, 6, 9)}),
        "survivors off the roster": ("Survivors", 1, {"alive": (1, 4, 10)}),
        "too few survivors": ("Survivors", 1, {"alive": (1, 4)}),
        "a signature on other survivors": ("SurvivorSignature", 4, {"signature": other_set[0]}),
        "another head than the one signed": ("SurvivorSignature", 4, {"head": bytes(32)}),
        "too few signatures": ("UnmaskRequest", 1, {f.name: getattr(asked, f.name)[:1] for f in fields(asked)}),
        "other heads than those signed": ("UnmaskRequest", 1, {"heads": asked.heads[::-1]}),
        "signatures on other survivors": ("UnmaskRequest", 1, {"signatures": other_set}),
        "a signature of the dropped": ("UnmaskRequest", 1, {"signers": (4, 6)}),
        "the wrong kind of share": ("Reveal", 9, {"alive": (1,), "seeds": reveal.seeds[:1], "dropped": (4, 6),
                                                   "keys": (b"\x02" + reveal.seeds[1][1:], *reveal.keys)}),
        "a peer alive and dropped": ("Reveal", 9, {"dropped": (4,)}),
        "a share that another holds": ("Reveal", 9, {"seeds": (foreign, *reveal.seeds[1:])}),
        "a share that says to be of another kind": ("Reveal", 9, {"seeds": (b"\x02" + reveal.seeds[0][1:], *reveal.seeds[1:])}),
        "a share out of the field": ("Reveal", 9, {"seeds": (reveal.seeds[0][:5] + b"\xff" * 65, *reveal.seeds[1:])}),
    }  # fmt: skip


def with_fields(data, **parts):
    """The message in `data` with these fields, though its class may refuse them."""
    envelope = decode(data, SERVER, LIMIT)
    names = [f.name for f in fields(envelope.message)]
    items = cbor2.loads(data)
    return cbor2.dumps([*items[:5], *(parts.get(n, item) for n, item in zip(names, items[5:], strict=True))], canonical=True)


def another(message):
    """Fields that make another message of its kind, as well formed."""
    match message:
        case MaskKeys():
            return {"signature": bytes(64)}
        case Accepted(dealers=dealers):
            return {"dealers": dealers[:-1]}
        case MaskedInput(vector=vector):
            return {"vector": bytes(len(vector))}
        case Reveal(alive=alive, seeds=seeds):
            return {"alive": alive[:-1], "seeds": seeds[:-1]}
    raise ValueError("no other message of this kind is known")


def broken():
    cases = []
    for name, (kind, client, change) in changes().items():
        number = number_of(kind, client)
        frame = FRAMES[number]
        if isinstance(change, dict):
            data = with_fields(frame.data, **change)
        else:
            data = encode(Envelope(SESSION.digest, frame.sender, frame.receiver, change))
        cases.append({"name": name, "frame": number, "bytes": data, **refusal(number, data)})
    other = replace(SESSION, cluster="other").digest
    for kind in ("NeighbourKeys", "MaskWith", "Survivors", "UnmaskRequest"):
        number = number_of(kind, 1)
        data = FRAMES[number].data.replace(SESSION.digest, other)
        cases.append({"name": f"{kind} of another session", "frame": number, "bytes": data, **refusal(number, data)})
    for number in (number_of("MaskKeys", 9), number_of("Accepted", 9), number_of("MaskedInput", 9), number_of("Reveal", 9)):
        earlier = next(n for n, f in enumerate(FRAMES) if f.kind == FRAMES[number].kind and f.sender == 1)
        message = decode(FRAMES[earlier].data, 1, LIMIT).message
        data = with_fields(FRAMES[earlier].data, **another(message))  # the same once more would be a duplicate, and no error
        cases.append({"name": f"{FRAMES[earlier].kind} a second time", "frame": number, "bytes": data, **refusal(number, data)})
    return cases


FILES = {"masked_sum/v1/session.json": session, "masked_sum/v1/broken.json": broken}
