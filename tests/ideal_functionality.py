"""The ideal-functionality half: any protection, driven at random under any loss of frames, against `Plain` on the survivors.

A `Case` is a protection and what a network can do to its sessions. `Drive` opens its view and asks for everything it gives;
every typed answer is held against what `Plain` answers about exactly the clients that the answer names, and a refusal or a
missing answer against the rules (gate.py) for the weights as they are, times sample counts where these count, and what was lost.
It raises NotIdeal, which names the answer.

To put another protection through it, add a `Case`: its stages (kinds of frames, in order), who must survive, and, where the
protocol is particular about them, the weights that it takes and how far cosines may be off. An answer's own bounds are used:
`Sum.tolerance`, `Sum.error`, `Gram.tolerance`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Plain
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.parts.gate import TOLERANCE, Rules
from cloister.protocol.parts.history import apart
from cloister.protocol.parts.leverage import Row, largest
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Remembered, Sum, Updates, Weights
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

RUN = bytes(range(16))
INIT = Model("init")
MARK = 0.5
FLOAT32 = 2.0**-23

Clients = tuple[int, ...]

APART = (0, 1, 2, 4, 7, 13)
"""What so many counts are below the most: counts that lie together, and of which no two sets have one sum (Conway and Guy)."""


class NotIdeal(AssertionError):
    """A view answered what `Plain` would not have answered about these clients, or did not answer what it would have."""


def quarters(rng: np.random.Generator) -> float:
    """A weight within -1.5 and 3, exact in binary, often 0."""
    return float(rng.integers(-6, 13)) / 4 * float(rng.random() < 0.95)


def holds(row: Row, weights: Weights, rules: Rules) -> bool:
    """Whether a sum of these weights, times counts in `row` as they are, is to be answered: by whoever knows them all."""
    return rules.fit(row)


@dataclass(frozen=True, slots=True)
class Case:
    """A protection, and how the harness deals with it.

    stages: kinds of frames, stage by stage; a client that falls silent at a stage loses its frames of that and all later ones,
    of either direction. exact: whoever lost a frame has dropped out, and nobody else; otherwise whoever lost none is in the
    answer, and for others only the protocol knows. survives: (clients of a session, of whom so many lost frames) -> whether it
    must still answer. may_refuse: what else than the rules allows to refuse these sums. counts: whether sums may count samples;
    otherwise each that does is refused. holds: (the weights of those who are left, times counts where these count; the question;
    the rules) -> whether it must still be answered. doubt: by how much of it a leverage may be above its bound where sums count
    samples. draw: of a weight. samples: most samples of a client. length: coordinates of an update beside one for each client;
    all are within -0.9 and 0.9. cosine: bound on the error of a cosine. personal: how often clients are asked for personal sums.
    """

    protection: Protection
    stages: tuple[tuple[str, ...], ...] = (("Task",), ("Upload",))
    exact: bool = True
    survives: Callable[[int, int], bool] = lambda clients, lost: lost < clients or not clients
    may_refuse: Callable[["Asked", Mapping[str, Weights]], bool] = lambda asked, weights: False
    counts: bool = True
    holds: Callable[[Row, Weights, Rules], bool] = holds
    doubt: float = 0.0
    draw: Callable[[np.random.Generator], float] = quarters
    samples: int = 32
    length: int = 24
    cosine: float = 1e-4
    personal: float = 0.0

    @property
    def rules(self) -> Rules:
        return Rules(self.protection.floor, getattr(self.protection, "corrupt", 0))  # type: ignore[attr-defined]

    def shows(self, rows: Sequence[Row], counted: bool) -> bool:
        """Whether published rows, as they are, show more than the rules allow."""
        doubt = self.doubt if counted else 0.0
        return self.rules.floor > 1 and largest(rows) > (1 + doubt) / self.rules.least + TOLERANCE

    def __str__(self) -> str:
        return repr(self.protection)


@dataclass(eq=False)
class Asked:
    """What was asked about one handle so far. reference: `Plain` about its clients. rows: of the sums that were published.

    weights: of all sums that were not refused. compared: the clients of its Gram matrix, once there is one. missed: who lost
    frames of a Gram matrix that was not answered. personal: whether clients were asked for personal sums; then published ones are
    refused, and who lacks the sample counts does not know which of them add up to nothing.
    """

    updates: Updates
    kind: str
    reference: ServerView
    there: Updates
    rows: list[Mapping[int, float]] = field(default_factory=list)
    weights: list[Weights] = field(default_factory=list)
    compared: Clients | None = None
    missed: set[int] = field(default_factory=set)
    personal: bool = False


def overlaps(asked: Asked, weights: Mapping[str, Weights]) -> bool:
    """Whether two sums of one handle have clients in common, but not all, or one of them counts samples and the other differs.

    Where the server lacks the counts, nobody can hold these two against the rules; clients that check for themselves give one
    update to sums among the same clients only.
    """
    there, every = asked.updates.clients, (*asked.weights, *weights.values())
    rows = [(w.times_samples, {i: w.of[i] for i in there if w.of.get(i)}) for w in every]
    return any(
        (a != b or one.keys() != other.keys() or (a and one != other)) and not one.keys().isdisjoint(other)
        for (a, one), (b, other) in combinations(rows, 2)
    )


class Drive:
    """One view of a case, under a network that `fates` and `frame_fate` decide on, round by round.

    fates: client -> number of the stage from which it is silent. frame_fate: the fate of any frame of the stages that is not
    lost already: "pass", "drop", "replay" or "late".
    """

    def __init__(self, case: Case, clients: Clients, seed: int) -> None:
        self.case, self.clients, self.length = case, clients, case.length + len(clients)
        self.rng = np.random.default_rng([seed, len(clients)])
        self.seed, self.round = seed, 0
        self.places = {client: place for place, client in enumerate(clients)}
        few, most = len(clients) <= len(APART), case.samples
        of = (most - (APART[p] if few else int(self.rng.integers(most - most // 3 + 1))) for p in self.places.values())
        self.samples = dict(zip(clients, of, strict=True))
        self.fates: Mapping[int, int] = {}
        self.frame_fate: Callable[[], str] = lambda: "pass"
        self.lost: set[int] = set()
        self.disturbed = False
        self.starts: dict[int, np.ndarray] = {}
        initial = np.zeros(self.length, np.float32)
        self.view = case.protection.open(Setup(RUN, initial, clients, self.work, SimulatedEntropy(seed), self.tap))
        self.models = [INIT]
        self.remembered: list[tuple[Remembered, int, str]] = []
        self.history: dict[
            bool, tuple[Remembered, dict[int, np.ndarray], dict[int, float]]
        ] = {}  # sums, and bounds on their norms
        self.historian = np.random.default_rng([seed, len(clients), 1])
        self.comparer = np.random.default_rng([seed, len(clients), 2])
        self.edges: list[tuple[Remembered, int, str]] = []
        self.kept: list[tuple[Remembered, int, str]] = []
        self.recalled_in = -1

    # --- clients and network --------------------------------------------------------------------------------------------

    def vector(self, client: int, round: int, kind: str) -> np.ndarray:
        """A client's update: its own mark, MARK at the client's own coordinate; random beyond the coordinates of marks."""
        rng = np.random.default_rng([self.seed, client, round, kind == "update"])
        vector = np.clip(0.2 * rng.standard_normal(self.length), -0.9, 0.9).astype(np.float32)
        vector[: len(self.clients)] = 0
        vector[self.places[client]] = MARK
        return vector

    def work(self, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            if job.round != self.round or not np.array_equal(job.start, self.starts[job.client]):
                raise NotIdeal(f"client {job.client} was to work on another model or round than asked for")
            yield job.client, LocalWork(self.vector(job.client, job.round, job.work), self.samples[job.client])

    def tap(self, frame: Frame) -> Iterable[Frame]:
        client = frame.sender if frame.sender >= 0 else frame.receiver
        at = next((n for n, kinds in enumerate(self.case.stages) if frame.kind in kinds), None)
        if at is None or client < 0:
            return [frame]
        fate = "drop" if self.fates.get(client, len(self.case.stages)) <= at else self.frame_fate()
        self.disturbed |= fate != "pass"
        if fate in ("drop", "late"):
            self.lost.add(client)
        return {"pass": [frame], "drop": [], "replay": [frame, frame], "late": [replace(frame, late=True)]}[fate]

    # --- what Plain says ------------------------------------------------------------------------------------------------

    def plain(self, clients: Clients, round: int, kind: str, floor: int = 1) -> tuple[ServerView, Updates]:
        """`Plain` after these clients' uploads, and nobody else's, with its handle on them."""

        def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
            for job in jobs:
                yield job.client, LocalWork(self.vector(job.client, round, kind), self.samples[job.client])

        initial = np.zeros(self.length, np.float32)
        view = Plain(floor).open(Setup(RUN, initial, self.clients, work, SimulatedEntropy(0)))
        return view, view.train(round, {"root": Assignment(INIT, clients, clients)})["root"]

    # --- trains -----------------------------------------------------------------------------------------------------------

    def _begin(self, work: Mapping[str, Assignment] | None = None) -> tuple[int, int]:
        """Before any question: nothing is lost yet. Returns how many faults and disclosures there were."""
        self.lost = set()
        self.disturbed &= work is None
        for assignment in (work or {}).values():
            self.starts |= dict.fromkeys(assignment.participants, self.view.harness.observe(assignment.model))
        return len(self.view.record.faults), len(self.view.record.log)

    def _silent(self, participants: Clients, faults: int) -> bool:
        """Whether a session among these may end without an answer: too much was lost, or the failure is on record."""
        lost = len(self.lost & set(participants))
        on_record = not self.case.exact and self.disturbed and len(self.view.record.faults) > faults
        return not self.case.survives(len(participants), lost) or on_record

    def _counting(self, weights: Weights, clients: Iterable[int]) -> dict[int, float]:
        """The weights as they are, times sample counts where these count."""
        return {i: weights.of[i] * (self.samples[i] if weights.times_samples else 1) for i in clients if weights.of.get(i)}

    def _may_be_withheld(self, weights: Weights, of: Row, receiver: int | None = None) -> bool:
        """Whether the rules, or a total weight of 0, leave no sum: of all, or of those that a protocol may have been left with.

        receiver: the only one of the sum, who is counted in its total and not by the rules.
        """
        gone = [i for i in of if i in self.lost]
        for some in (set(some) for n in range(len(gone) + 1) for some in combinations(gone, n)):
            left = {i: w for i, w in of.items() if i not in some}
            others = {i: w for i, w in left.items() if i != receiver}
            if math.fsum(left.values()) == 0 or not self.case.holds(others, weights, self.case.rules):
                return True
        return False

    def _check_clients(self, what: str, named: Clients, participants: Clients) -> None:
        if tuple(sorted(set(named))) != tuple(named) or not set(named) <= set(participants):
            raise NotIdeal(f"{what} names {named}, of whom some were not asked, or not in order")
        certain = tuple(i for i in participants if i not in self.lost)
        if not set(certain) <= set(named) or (self.case.exact and named != certain):
            raise NotIdeal(f"{what} names {named}; what arrived came from {certain}")

    def train(self, work: Mapping[str, Assignment], kind: str = "update") -> dict[str, Asked]:
        """Train, and check who is said to have survived."""
        faults, _ = self._begin(work)
        answered = self.view.train(self.round, work, kind)
        result = {}
        for cluster, assignment in work.items():
            if cluster not in answered:
                if not self._silent(assignment.participants, faults):
                    raise NotIdeal(f"{cluster} got no handle, although {set(assignment.participants) - self.lost} were heard")
                continue
            updates = answered[cluster]
            self._check_clients(f"the handle on {cluster}", updates.clients, assignment.participants)
            if (updates.cluster, updates.round, updates.members) != (cluster, self.round, assignment.members):
                raise NotIdeal(f"the handle on {cluster} is about something else")
            result[cluster] = Asked(updates, kind, *self.plain(updates.clients, self.round, kind, self.case.rules.least))
        return result

    def train_and_sum(self, work: Mapping[str, Assignment], weights: Mapping[str, Weights]) -> dict[str, Sum]:
        """Train and sum at once, and check the sums."""
        faults, logged = self._begin(work)
        try:
            answered = self.view.train_and_sum(self.round, work, weights)
        except Refused as error:
            if self._countless(weights):
                return {}
            raise NotIdeal(f"{error}: nothing demands this of one sum for each cluster") from None
        self._none_counted(weights)
        if set(answered) != set(work):
            raise NotIdeal(f"{set(work)} were to be summed, {set(answered)} answered")
        for cluster, assignment in work.items():
            counted = tuple(i for i in assignment.participants if weights[cluster].of.get(i, 0.0))
            silent = self._silent(counted, faults)
            self.check_sum(answered[cluster], weights[cluster], counted, "update", silent, logged)
        return {cluster: answer for cluster, answer in answered.items() if isinstance(answer, Sum)}

    # --- answers -------------------------------------------------------------------------------------------------------------

    def _countless(self, weights: Mapping[str, Weights]) -> bool:
        """Whether some of these sums count samples, where none may."""
        return not self.case.counts and any(w.times_samples for w in weights.values())

    def _none_counted(self, weights: Mapping[str, Weights]) -> None:
        if self._countless(weights):
            raise NotIdeal(f"sums {set(weights)} were answered, some of which count samples: nobody holds these to the floor")

    def check_sum(
        self, answer: Sum | BelowFloor, weights: Weights, counted: Clients, kind: str, silent: bool, logged: int
    ) -> None:
        """Check one answer. counted: clients with a non-zero weight. silent: no answer is excused by what was lost."""
        what = f"{answer!r} of round {self.round}"
        if not isinstance(answer, Sum | BelowFloor):
            raise NotIdeal(f"{what} is no answer to a sum")
        if not silent:
            self._check_clients(what, answer.clients, counted)
        of, least = self._counting(weights, answer.clients), self.case.rules.least
        if isinstance(answer, BelowFloor):
            if answer not in self.view.record.below_floor or answer.floor != least:
                raise NotIdeal(f"{what} is not on record, or under another floor than {least}")
            if not silent and not self._may_be_withheld(weights, of):
                raise NotIdeal(f"{what} was withheld for no reason: it rests on enough clients, of whom none weighs too much")
            return
        if len(answer.clients) < least:
            raise NotIdeal(f"{what} rests on fewer than {least} clients")
        if self.case.shows([of], weights.times_samples):
            raise NotIdeal(f"{what} shows too much of one client: their weights are {of}")
        if not any(set(answer.clients) <= set(entry.about) for entry in self.view.record.log[logged:]):
            raise NotIdeal(f"{what} is not in the disclosure log")
        self._check_value(what, answer, weights, of, kind)

    def _check_value(
        self, what: str, answer: Sum, weights: Weights, of: Mapping[int, float], kind: str, receiver: int | None = None
    ) -> None:
        view, updates = self.plain(answer.clients, self.round, kind)
        ideal = view.sums(updates, {"sum": weights})["sum"]
        if not isinstance(ideal, Sum) or (ideal.clients, answer.recipient) != (
            answer.clients,
            self.view.owner if receiver is None else receiver,
        ):
            raise NotIdeal(f"{what}: about these clients there is {ideal!r}")
        if abs(answer.weight - ideal.weight) > (answer.tolerance + 1e-12) * sum(map(abs, of.values())):
            raise NotIdeal(f"{what} has not the weight {ideal.weight}")
        expected = view.harness.observe(view.advance(INIT, ideal)).astype(np.float64) * ideal.weight
        found = self.view.harness.observe(self.view.advance(INIT, answer)).astype(np.float64) * answer.weight
        scale = sum(abs(a) * float(np.linalg.norm(self.vector(i, self.round, kind))) for i, a in of.items())
        absolute = answer.error * abs(answer.weight)
        allowed = answer.tolerance * scale + absolute + 2 * FLOAT32 * float(np.linalg.norm(expected)) + 1e-12
        seen = {i: found[place] / MARK for i, place in self.places.items()}
        tells = allowed < MARK * min(map(abs, of.values()))
        if not tells and abs(answer.weight) > 0.5 * sum(map(abs, of.values())):
            raise NotIdeal(f"{what}: within its own bounds ({allowed:.3g}) nobody could tell who counted")
        if wrong := tells and [i for i, a in seen.items() if abs(a - of.get(i, 0.0)) > allowed / MARK]:
            raise NotIdeal(f"{what}: client {wrong[0]} counts {seen[wrong[0]]:.6g} times, not {of.get(wrong[0], 0.0)} times")
        if (off := float(np.linalg.norm(found - expected))) > allowed:
            raise NotIdeal(f"{what} is off by {off:.3g}, and {allowed:.3g} is allowed")
        if answer.norm is not None:
            off = abs(answer.norm * abs(answer.weight) - float(np.linalg.norm(expected)))
            if off > allowed + 1e-6 * scale:
                raise NotIdeal(f"{what}: its norm is off by {off:.3g}")

    def sums(self, asked: Asked, weights: Mapping[str, Weights]) -> dict[str, Sum]:
        """Ask for sums; check each of them, and what they tell together with what was published before."""
        (faults, logged), least = self._begin(), self.case.rules.least
        try:
            asked.reference.sums(asked.there, weights)
            refused = False
        except Refused:
            refused = True
        try:
            answered = self.view.sums(asked.updates, weights)
        except Refused as error:
            excused = self.case.may_refuse(asked, weights) or (asked.personal and any(w.times_samples for w in weights.values()))
            excused |= self._countless(weights) or self._would_show(asked, weights)
            if not (refused or excused or self._silent(asked.updates.clients, faults)):
                raise NotIdeal(f"{error}: nothing demands this, with {asked.rows} published and {dict(weights)} asked") from None
            if len(self.view.record.log) != logged:
                raise NotIdeal("something was disclosed in spite of a refusal") from None
            return {}
        self._none_counted(weights)
        if set(answered) != set(weights):
            raise NotIdeal(f"{set(weights)} were asked for, {set(answered)} answered")
        asked.weights += weights.values()
        for name, answer in answered.items():
            of = weights[name].of
            counted = tuple(i for i in asked.updates.clients if of.get(i, 0.0))
            self.check_sum(answer, weights[name], counted, asked.kind, self._silent(counted, faults), logged)
            if isinstance(answer, Sum):
                asked.rows.append(self._counting(weights[name], answer.clients))
        counting = any(w.times_samples for w in asked.weights)
        if self.case.shows(asked.rows, counting) or (refused and self.case.exact):
            raise NotIdeal(f"sums {set(answered)} were published, which with {asked.rows} show fewer than {least} clients")
        return {name: answer for name, answer in answered.items() if isinstance(answer, Sum)}

    def _would_show(self, asked: Asked, weights: Mapping[str, Weights]) -> bool:
        """Whether these sums show too much with those that were published, which need not be all that the reference answered."""
        rows = [self._counting(w, asked.updates.clients) for w in weights.values()]
        counted = any(w.times_samples for w in (*asked.weights, *weights.values()))
        return self.case.shows([*asked.rows, *(row for row in rows if self.case.rules.fit(row))], counted)

    def _weighed(self, asked: Asked) -> bool:
        """Whether a sum that counts samples was asked for which the weights in public allow. Who lacks the counts takes its
        updates for given, even if what clients then open of the counts allows no sum.
        """
        counting = [{i: w.of[i] for i in asked.updates.clients if w.of.get(i)} for w in asked.weights if w.times_samples]
        return not self.case.exact and any(map(self.case.rules.fit, counting))

    def personal_sums(self, asked: Asked, weights: Mapping[int, Weights]) -> dict[int, Sum]:
        """Ask for a sum for each of these receivers; check each of them, and that nobody gets two or a public one beside it."""
        faults, logged = self._begin()
        try:
            asked.reference.personal_sums(asked.there, weights)
            refused = False
        except Refused:
            refused = True
        try:
            answered = self.view.personal_sums(asked.updates, weights)
        except Refused as error:
            if not (refused or self._weighed(asked)):
                raise NotIdeal(f"{error}: nothing demands this, with {asked.rows} published and {weights} asked") from None
            if len(self.view.record.log) != logged:
                raise NotIdeal("something was disclosed in spite of a refusal") from None
            return {}
        if refused:
            raise NotIdeal(f"personal sums for {set(weights)} were answered, which show more than one sum to a receiver")
        asked.personal = True
        if set(answered) != set(weights):
            raise NotIdeal(f"sums for {set(weights)} were asked for, for {set(answered)} answered")
        for receiver, answer in answered.items():
            self._check_personal(asked, receiver, answer, weights[receiver], faults, logged)
        return {receiver: answer for receiver, answer in answered.items() if isinstance(answer, Sum)}

    def _check_personal(
        self, asked: Asked, receiver: int, answer: Sum | BelowFloor, weights: Weights, faults: int, logged: int
    ) -> None:
        """The floor is of the others: a receiver knows its own update."""
        what = f"{answer!r} for client {receiver} of round {self.round}"
        counted = tuple(i for i in asked.updates.clients if weights.of.get(i, 0.0))
        others = tuple(i for i in counted if i != receiver)
        silent = self._silent(others, faults) or (not self.case.exact and receiver in self.lost)
        if not silent:
            self._check_clients(what, answer.clients, counted)
        of, least = {i: weights.of[i] for i in answer.clients}, self.case.rules.least
        if isinstance(answer, BelowFloor):
            if answer not in self.view.record.below_floor or answer.floor != least:
                raise NotIdeal(f"{what} is not on record, or under another floor than {least}")
            if not silent and not self._may_be_withheld(weights, of, receiver):
                raise NotIdeal(f"{what} was withheld for no reason: it rests on enough others, of whom none weighs too much")
            return
        if not self.case.rules.fit({i: a for i, a in of.items() if i != receiver}):
            raise NotIdeal(f"{what} rests on fewer than {least} clients beside its receiver, or shows too much of one")
        told = [entry for entry in self.view.record.log[logged:] if entry.client == receiver]
        if not any(set(answer.clients) - {receiver} <= set(entry.about) for entry in told):
            raise NotIdeal(f"{what} is not in the disclosure log as that client's")
        self._check_value(what, answer, weights, of, asked.kind, receiver)

    def by_differences(self, asked: Asked) -> None:
        """Compare what differs, and nothing else: with one another, and what is kept; then one sum. Or with a split alone."""
        rng = self.comparer
        if self.edges and rng.random() < 0.3:
            self.cosines(asked, self.edges[-1], about_the_split=True)
            return
        self.gram(asked, origin=False)
        if not asked.compared:
            return
        chosen = tuple(i for i in asked.compared if rng.random() < 0.7)
        if len(chosen) > 1 and rng.random() < 0.6:
            self.edges.append((self.view.edge(asked.updates, chosen), self.round, asked.kind))
        held = tuple(i for i in asked.compared if rng.random() < 0.8)
        if held:
            older = [(replace(h, clients=tuple(i for i in h.clients if i not in held)), *when) for h, *when in self.kept]
            new = self.view.keep(asked.updates, held)
            self.kept = [(h, *when) for h, *when in [*older, (new, self.round, asked.kind)] if h.clients]
        if self.kept and self.recalled_in != self.round and rng.random() < 0.5:
            self.recalled_in = self.round  # clients answer this once a round
            self.recall()
        self.sums(asked, {"one": self.some_weights(asked.updates.clients)})

    def recall(self) -> None:
        """Compare all that is kept, each set about its own mean, and check that."""
        faults, logged = self._begin()
        handles = [handle for handle, *_ in self.kept]
        parts = apart(handles)
        roster = tuple(sorted(i for part in parts for i in part))
        try:
            gram = self.view.recall(self.round, handles)
        except ProtocolError as error:
            if not self._silent(roster, faults):
                raise NotIdeal(f"{error}: nothing was lost that this needs") from None
            return
        self._check_clients("kept updates", gram.clients, roster)
        if not gram.clients:
            return
        vectors = {i: self.vector(i, *when).astype(np.float64) for handle, *when in self.kept for i in handle.clients}
        rows, scale = np.zeros((len(gram.clients), self.length)), np.zeros(len(gram.clients))
        for at in ([k for k, i in enumerate(gram.clients) if i in part] for part in parts):
            if at:
                inside = np.stack([vectors[gram.clients[k]] for k in at])
                rows[at], norms = inside - inside.mean(axis=0), np.linalg.norm(inside, axis=1)
                scale[at] = norms + norms.mean()
        if (np.abs(gram.matrix - rows @ rows.T) > (gram.tolerance + 1e-6) * np.outer(scale, scale)).any():
            raise NotIdeal(f"inner products of kept updates of {gram.clients} are off in round {self.round}")
        if not any(set(gram.clients) <= set(entry.about) for entry in self.view.record.log[logged:]):
            raise NotIdeal("inner products of kept updates are not in the disclosure log")

    def gram(self, asked: Asked, origin: bool = True) -> None:
        """Ask for the Gram matrix and check it. Where it needs other parties, their silence is an error with blame."""
        faults, logged = self._begin()
        self.lost |= asked.missed
        try:
            gram = self.view.gram(asked.updates, origin=origin)
        except ProtocolError as error:
            if not self._silent(asked.updates.clients, faults):
                raise NotIdeal(f"{error}: nothing was lost that this needs") from None
            asked.missed |= self.lost
            return
        self._check_clients("a Gram matrix", gram.clients, asked.updates.clients)
        asked.compared = gram.clients
        if not gram.clients:
            return
        if not any(set(gram.clients) <= set(entry.about) for entry in self.view.record.log[logged:]):
            raise NotIdeal("a Gram matrix is not in the disclosure log")
        view, updates = self.plain(gram.clients, self.round, asked.kind)
        ideal = view.gram(updates, origin=origin)
        norms = np.array([np.linalg.norm(self.vector(i, self.round, asked.kind)) for i in gram.clients])
        norms += 0 if origin else norms.mean()
        if gram.matrix.shape != ideal.matrix.shape or gram.matrix.dtype != np.float64 or (gram.matrix != gram.matrix.T).any():
            raise NotIdeal(f"a Gram matrix of {gram.clients} is no symmetric float64 matrix of their number")
        off = np.abs(gram.matrix - ideal.matrix) / np.outer(norms, norms)
        if (off > gram.tolerance + ideal.tolerance).any():
            raise NotIdeal(f"a Gram matrix of {gram.clients} is off by {off.max():.3g}, and says {gram.tolerance:.3g}")

    def median(self, asked: Asked) -> None:
        """Ask for the median of every coordinate and check it. Nothing else is asked about this handle."""

        def rule(rows: np.ndarray) -> np.ndarray:
            return np.median(rows, axis=0).astype(np.float32)

        answer = self.view.coordinates(asked.updates, "median", rule)
        expected = rule(np.stack([self.vector(i, self.round, asked.kind) for i in asked.updates.clients]))
        if isinstance(answer, BelowFloor) != (len(asked.updates.clients) < self.case.rules.least):
            raise NotIdeal(f"{answer!r} is not what the floor of {self.case.rules.least} demands")
        if isinstance(answer, Sum) and not np.array_equal(self.view.harness.observe(self.view.advance(INIT, answer)), expected):
            raise NotIdeal(f"{answer!r} is not the median of {asked.updates.clients}")

    def remember(self, asked: Asked, chosen: Clients) -> None:
        remembered = self.view.remember(asked.updates, chosen)
        if remembered.clients != tuple(sorted(chosen)):
            raise NotIdeal(f"{chosen} were to be remembered, not {remembered.clients}")
        self.remembered.append((remembered, self.round, asked.kind))

    def cosines(self, asked: Asked, stored: tuple[Remembered, int, str], about_the_split: bool = False) -> None:
        """Compare with updates of an earlier round, and check. Who fell silent has no cosines to a split."""
        remembered, round, kind = stored
        faults, logged = self._begin()
        try:
            found = self.view.cosines(asked.updates, remembered)
        except ProtocolError as error:
            if not self._silent(asked.updates.clients, faults):
                raise NotIdeal(f"{error}: nothing was lost that this needs") from None
            return
        except Refused as error:
            if asked.compared != asked.updates.clients:
                return
            raise NotIdeal(f"{error}: nothing demands this") from None
        rows = np.stack([self.vector(i, self.round, asked.kind) for i in asked.updates.clients]).astype(np.float64)
        columns = np.stack([self.vector(i, round, kind) for i in remembered.clients]).astype(np.float64)
        if about_the_split:
            gone = np.isnan(found).all(axis=1)
            lost = self.lost
            if not {i for i, none in zip(asked.updates.clients, gone, strict=True) if none} <= lost:
                raise NotIdeal(f"{asked.updates.clients} were not all compared with a split, and nothing was lost")
            found = found[~gone]
            rows, columns = rows[~gone] - columns.mean(axis=0), columns - columns.mean(axis=0)
        expected = rows @ columns.T / np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(columns, axis=1))
        if found.shape != expected.shape or (np.abs(found - expected) > self.case.cosine).any():
            raise NotIdeal(f"cosines of {asked.updates.clients} and {remembered.clients} of round {round} are off")
        about = {*(() if about_the_split else asked.updates.clients), *remembered.clients}
        if not any(about <= set(entry.about) for entry in self.view.record.log[logged:]):
            raise NotIdeal("cosines are not in the disclosure log")

    def accumulate(self, asked: Asked) -> None:
        """Add some of these updates to what is kept of their clients, or begin anew, and compare all of them with that."""
        rng, chosen = self.historian, asked.compared or ()
        weights = {i: float(rng.uniform(-1, 2)) for i in chosen if rng.random() < 0.7}
        decay, together = float(rng.choice([0.0, 0.5, 1.0, -1.5])), bool(rng.random() < 0.4)
        before = self.history[together] if together in self.history and rng.random() < 0.8 else (None, {}, {})
        handle, sums, bounds = before
        kept = self.view.accumulate(asked.updates, weights, handle, decay=decay, together=together)
        sums, bounds = {i: decay * x for i, x in sums.items()}, {i: abs(decay) * x for i, x in bounds.items()}
        for i, w in weights.items():
            vector = self.vector(i, self.round, asked.kind).astype(np.float64)
            sums[i], bounds[i] = sums.get(i, 0.0) + w * vector, bounds.get(i, 0.0) + abs(w) * float(np.linalg.norm(vector))
        if kept.clients != tuple(sorted(sums)) or kept.together != together:
            raise NotIdeal(f"sums of {sorted(sums)} were to be kept, not of {kept.clients}")
        self.history[together] = kept, sums, bounds
        logged, compared = len(self.view.record.log), tuple(i for i in chosen if rng.random() < 0.7)
        found = self.view.gram_with(replace(asked.updates, clients=compared), kept)
        new = [self.vector(i, self.round, asked.kind).astype(np.float64) for i in compared]
        old, sizes = [sums[i] for i in kept.clients], [bounds[i] for i in kept.clients]
        if together and old:
            old, sizes = [np.sum(old, axis=0)], [sum(sizes)]
        rows = np.array([*new, *old]).reshape(-1, self.length)
        norms = np.array([*map(np.linalg.norm, new), *sizes])
        if (
            found.shape != (len(rows), len(rows))
            or (np.abs(found - rows @ rows.T) > self.case.cosine * np.outer(norms, norms)).any()
        ):
            raise NotIdeal(f"inner products of {compared} and of sums of {kept.clients} are off in round {self.round}")
        about = {*compared, *kept.clients}  # of nobody nothing is told, and nothing logged
        if about and not any(about <= set(entry.about) for entry in self.view.record.log[logged:]):
            raise NotIdeal("inner products with sums of earlier updates are not in the disclosure log")

    def advance(self, model: Model, mean: Sum) -> Model:
        """Move a model, and check that it moved by the published mean."""
        step = self.view.harness.observe(self.view.advance(INIT, mean))
        before = self.view.harness.observe(model)
        moved = self.view.advance(model, mean)
        if not np.allclose(self.view.harness.observe(moved), before + step, rtol=1e-6, atol=1e-6):
            raise NotIdeal(f"{model} did not move by {mean}")
        return moved

    # --- whole rounds ---------------------------------------------------------------------------------------------------------

    def some_weights(self, clients: Clients) -> Weights:
        return Weights(self.some_row(clients), bool(self.rng.random() < (0.5 if self.case.counts else 0.1)))

    def some_row(self, clients: Iterable[int]) -> dict[int, float]:
        """Weights that the rules admit more often than not: all the same, or nearly so, with the signs of the draw; or any."""
        drawn = {i: self.case.draw(self.rng) for i in clients}
        kind = self.rng.choice(["even", "near", "any"], p=[0.35, 0.45, 0.2])
        if kind == "any":
            return drawn
        if kind == "even":
            return dict.fromkeys(drawn, 1.0 + max(drawn.values(), default=0.0))
        return {i: math.copysign(float(self.rng.integers(3, 6)) / 4, a) if a else 0.0 for i, a in drawn.items()}

    def some_rows(self, clients: Clients) -> dict[str, Weights]:
        """One to three rows: of everybody, of disjoint groups, of overlapping groups, or of one client."""
        rng = self.rng
        shape = rng.choice(["all", "disjoint", "overlapping", "one"], p=[0.45, 0.3, 0.15, 0.1])
        if shape == "all":
            return {"all": self.some_weights(clients)}
        if shape == "one":
            return {"one": Weights({int(rng.choice(clients)): 1.0})}
        groups = 2 + int(rng.random() < 0.3)
        owner = rng.integers(0, groups, len(clients))
        of = [tuple(i for i, g in zip(clients, owner, strict=True) if g == k) for k in range(groups)]
        if shape == "overlapping":
            of = [tuple(i for i in clients if rng.random() < 0.8) for _ in range(groups)]
        return {f"group {k}": self.some_weights(group) for k, group in enumerate(of)}

    def some_work(self) -> dict[str, Assignment]:
        """One or two clusters; some members take no part."""
        rng, names = self.rng, ("a", "b")[: 1 + int(self.rng.random() < 0.4)]
        owner = rng.integers(0, len(names), len(self.clients))
        work = {}
        for k, name in enumerate(names):
            members = tuple(i for i, o in zip(self.clients, owner, strict=True) if o == k)
            participants = tuple(i for i in members if rng.random() < 0.9)
            if participants:
                work[name] = Assignment(self.models[int(rng.integers(len(self.models)))], participants, members)
        return work

    def one_round(self) -> None:
        """A round of random work and random questions, under the network of the moment."""
        rng, gives = self.rng, self.case.protection.gives
        work = self.some_work()
        moved = []
        if rng.random() < 0.3:
            answers = self.train_and_sum(work, {name: self.some_weights(a.participants) for name, a in work.items()})
            moved += [self.advance(work[name].model, answer) for name, answer in answers.items()]
        else:
            for name, asked in self.train(work, "update" if rng.random() < 0.8 else "gradient").items():
                if Functionality.COORDINATES in gives and rng.random() < 0.1:
                    self.median(asked)
                    continue
                if Functionality.GRAM_EDGE in gives and not self.case.personal and self.comparer.random() < 0.4:
                    self.by_differences(asked)
                    continue
                if Functionality.GRAM in gives and rng.random() < 0.7:
                    self.gram(asked)
                if Functionality.GRAM_REMEMBER in gives:
                    self.compare_and_remember(asked)
                if Functionality.GRAM_HISTORY in gives and asked.compared is not None and self.historian.random() < 0.5:
                    self.accumulate(asked)
                if self.case.personal and rng.random() < self.case.personal:
                    self.some_personal_sums(asked)
                    if rng.random() < 0.7:
                        continue
                for _ in range(int(rng.integers(1, 4))):
                    answers = self.sums(asked, self.some_rows(asked.updates.clients))
                    moved += [self.advance(work[name].model, answer) for answer in answers.values()]
                if self.case.personal and rng.random() < 0.3 * self.case.personal:
                    self.some_personal_sums(asked)
        self.models = [INIT, *(self.models[1:] + moved)[-3:]]
        self.remembered = [(self.narrowed(handle), *when) for handle, *when in self.remembered[-3:]]
        history = [handle for handle, *_ in (*self.history.values(), *self.edges[-3:], *self.kept)]
        self.view.harness.retire(self.models, [*(remembered for remembered, *_ in self.remembered), *history])
        self.round += 1

    def some_personal_sums(self, asked: Asked) -> None:
        """Rows of their own for some members, of whom some take no part in them; once more, sometimes for the same ones."""
        for _ in range(1 + int(self.rng.random() < 0.3)):
            receivers = [i for i in asked.updates.members if self.rng.random() < 0.5]
            rows = {r: [i for i in asked.updates.clients if self.rng.random() < 0.9] for r in receivers}
            self.personal_sums(asked, {r: Weights(self.some_row(row)) for r, row in rows.items()})

    def narrowed(self, remembered: Remembered) -> Remembered:
        """The handle, or sometimes one on fewer of its clients: the others are then forgotten."""
        if self.rng.random() < 0.7:
            return remembered
        fewer = tuple(i for i in remembered.clients if self.rng.random() < 0.7)
        return replace(remembered, clients=fewer or remembered.clients)

    def compare_and_remember(self, asked: Asked) -> None:
        """Compare with what is remembered, and remember some of those that can be compared."""
        if asked.compared is None:
            self.gram(asked)
        for stored in self.remembered[-2:]:
            self.cosines(asked, stored)
        clients = asked.compared or ()
        chosen = tuple(i for i in clients if self.rng.random() < 0.6) or clients[:1]
        if chosen and self.rng.random() < 0.5:
            self.remember(asked, chosen)

    def some_rounds(self, rounds: int) -> None:
        """Rounds without losses, with clients that fall silent at some stage, and with any fate of any frame."""
        for _ in range(rounds):
            weather = self.rng.choice(["calm", "one silent", "many silent", "gusty", "stormy"])
            stages = len(self.case.stages)
            silent = {"one silent": 1, "many silent": int(self.rng.integers(1, len(self.clients)))}.get(weather, 0)
            chosen = self.rng.choice(self.clients, silent, replace=False).tolist()
            self.fates = {i: int(self.rng.integers(stages)) for i in chosen}
            odds = {"gusty": [0.98, 0.01, 0.005, 0.005], "stormy": [0.9, 0.04, 0.03, 0.03]}.get(weather, [1, 0, 0, 0])
            self.frame_fate = lambda odds=odds: str(self.rng.choice(["pass", "drop", "replay", "late"], p=odds))
            self.one_round()

    def every_pattern(self, patterns: Iterable[Sequence[int]] | None = None) -> int:
        """For each client any stage or none at which it falls silent: a streamed sum, and a Gram matrix and sums of uploads.

        Returns how many patterns there were; two rounds each. patterns: fewer of them.
        """
        everyone = {"root": Assignment(INIT, self.clients, self.clients)}
        stages = len(self.case.stages)
        done = 0
        for pattern in patterns or product(range(stages + 1), repeat=len(self.clients)):
            self.fates = {i: s for i, s in zip(self.clients, pattern, strict=True) if s < stages}
            self.train_and_sum(everyone, {"root": Weights(dict.fromkeys(self.clients, 1.0), times_samples=self.case.counts)})
            self.round += 1
            for asked in self.train(everyone).values():
                if Functionality.GRAM in self.case.protection.gives:
                    self.gram(asked)
                self.sums(
                    asked, {"mean": Weights(dict.fromkeys(self.clients, 1.0)), "again": Weights(dict.fromkeys(self.clients, 2.0))}
                )
                self.sums(asked, {"without": Weights(dict.fromkeys(self.clients[1:], 1.0))})
            self.view.harness.retire([INIT], [])
            self.round += 1
            done += 1
        return done

    def every_personal_pattern(self, patterns: Iterable[Sequence[int]] | None = None) -> Mapping[str, int]:
        """The same for personal sums: one for each client, of rows that differ; a receiver may outweigh the others in its own.

        Returns how many there were of each outcome.
        """
        everyone = {"root": Assignment(INIT, self.clients, self.clients)}
        rows = {r: Weights({i: (1.0 + p) * (3 if i == r else 1) for i in self.clients}) for r, p in self.places.items()}
        stages, outcomes = len(self.case.stages), dict.fromkeys(("Sum", "BelowFloor", "no handle"), 0)
        for pattern in patterns or product(range(stages + 1), repeat=len(self.clients)):
            self.fates = {i: s for i, s in zip(self.clients, pattern, strict=True) if s < stages}
            handles = self.train(everyone)
            outcomes["no handle"] += not handles
            for asked in handles.values():
                answered = self.personal_sums(asked, rows)
                outcomes["Sum"] += len(answered)
                outcomes["BelowFloor"] += len(rows) - len(answered)
            self.view.harness.retire([INIT], [])
            self.round += 1
        return outcomes
