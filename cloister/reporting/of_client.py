"""What a run says of one of its clients: who learned what of it and when, how far it can be told apart, and where it belonged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from ..fl.near_names import near
from ..fl.runs.declines import is_declined
from ..protocol.view.disclosure import IN_CLUSTER, PARTIES, is_unanswered
from .account_words import WITHOUT_NOISE
from .headline import IN_CLEAR, MADE_OWN, corrupt_of, hides_from_one, noise_of_clients, smallest_sum, summed_with, up
from .run_data import Row, Run, client_ids, evaluated, number, score_words, scores
from .who_chose import in_slots
from .who_was_there import in_words, revoked_in, who_was_there

CLUSTER = "clients of its cluster"
METERS = {
    "leverage": ("taking part", "all sums together isolate it as in a group of {crowd:.3g}, if its updates never changed"),
    "information": ("taking part, told apart", "the share of what is its own that sums tell, as updates do change"),
    "span": (
        "single updates",
        "the share of what sets its update apart that the server knows by answers of the same round, at most",
    ),
    "temporal": (
        "habits over rounds",
        "how well the server estimates what it does in every round, by answers of the same rounds (squared cosine)",
    ),
}


@dataclass(frozen=True, slots=True)
class Told:
    """Answers of one kind that a client is in. about: of how many clients one is, the fewest and the most. rounds: from 0."""

    to: str
    words: str
    times: int
    about: tuple[int, int]
    rounds: tuple[int, ...]

    def __str__(self) -> str:
        fewest, most = self.about
        of = "of it alone" if most == 1 else f"of {fewest if fewest == most else f'{fewest} to {most}'} clients at once"
        return f"{self.words}  ({of}; round{_s(self.rounds)} {in_words(self.rounds)}, {self.times} time{'s' * (self.times != 1)})"


@dataclass(frozen=True, slots=True)
class OfClient:
    """client: its id, as text. Shows all that the record of the run has about it; what it wrote itself is in its own folder."""

    client: str
    run: Run = field(repr=False)

    @property
    def disclosures(self) -> list[dict[str, Any]]:
        """The answers that depend on it, as `Result.disclosures` has them."""
        return [dict(entry) for entry in self.run.answers if self.client in map(str, entry.get("about") or ())]

    @property
    def told(self) -> list[Told]:
        """The same by who was told and what, in the order of parties; of questions that were not answered nothing."""
        found: dict[tuple[str, str], list[Row]] = {}
        for entry in (entry for entry in self.disclosures if not _unanswered(entry)):
            found.setdefault((self._to(entry), str(entry.get("words"))), []).append(entry)
        order: dict[str, int] = {party: k for k, party in enumerate(PARTIES)}
        return [
            Told(to, words, len(of), _about(of), tuple(sorted({int(number(entry.get("round", 0))) for entry in of})))
            for (to, words), of in sorted(found.items(), key=lambda item: order.get(item[0][0], len(order)))
        ]

    @property
    def smallest_sum(self) -> int | None:
        """Fewest clients in a sum with it that anybody was told; None where nobody was told any."""
        return smallest_sum(self.run, self.client)

    @property
    def meters(self) -> dict[str, float]:
        """How far it can be told apart, by meter; empty of a run that is not over, and of records of before."""
        each = {name: of.get(self.client) for name, of in self.run.exposure.items() if isinstance(of, Mapping)}
        return {name: value for name, of in each.items() if (value := number(of)) == value}

    @property
    def epsilon(self) -> dict[str, float]:
        """By unit, what it has spent; empty where nothing has noise."""
        units = {unit: of.get("clients") or {} for unit, of in self.run.privacy.items() if isinstance(of, Mapping)}
        return {unit: number(of[self.client].get("epsilon")) for unit, of in units.items() if self.client in of}

    @property
    def rows(self) -> list[tuple[str, str]]:
        """All of it as pairs of a name and words."""
        return [row for part in (self._learned, self._apart, self._epsilons, self._belonged) for row in part()]

    def _to(self, entry: Row) -> str:
        if entry.get("client") is not None:
            return "client itself" if str(entry["client"]) == self.client else "other clients, each its own"
        party = str(entry.get("recipient"))
        of_cluster = entry.get("what") == "sums" or entry.get("words") == IN_CLUSTER
        return CLUSTER if party == "clients" and of_cluster else party

    def _learned(self) -> Iterator[tuple[str, str]]:
        told = self.told
        for one in told:
            yield f"the {one.to} learned".replace("the other", "other"), str(one)
        for party in map(str, self.run.summary.get("disclosed") or {}):
            if not any(str(entry.get("recipient")) == party for entry in self.disclosures):
                yield f"the {party} learned", "nothing of it"

    def _apart(self) -> Iterator[tuple[str, str]]:
        least, corrupt = self.smallest_sum, corrupt_of(self.run)
        told = (e for e in self.disclosures if e.get("recipient") == "server" and e.get("what") != "scores")
        if str(self.run.summary.get("protection")) in IN_CLEAR and any(number(e.get("scalars")) > 0 for e in told):
            yield "smallest sum with it", "counts for nothing: the server saw the update itself"
        elif least is not None:
            rounds = [int(number(e.get("round", 0))) for e in self.disclosures if summed_with(e) == least]
            shared = any(summed_with(e) == least and e.get("what") == "sums" for e in self.disclosures)
            left = hides_from_one(least) if shared else ""
            left = f"; should {corrupt} be corrupt, it hides among {max(least - corrupt, 0)}" if corrupt else left
            over = f"over {least} client{'s' * (least != 1)}"
            yield "smallest sum with it", f"{over}, in round{_s(rounds)} {in_words(rounds)}{left}"
        elif not in_slots(self.run):
            yield "smallest sum with it", "none: nobody was told a sum with its update"
        for name, (label, words) in METERS.items():
            if (value := self.meters.get(name)) is not None:
                blind = (self.run.summary.get("account") or {}).get("noise")
                yield label, f"{value:.3f}: {words}{WITHOUT_NOISE * bool(blind)}".format(crowd=1 / value if value else 0)
        if not self.meters and (self.run.interrupted or self.run.summary.get("account")):
            nowhere = not any(summed_with(e) for e in self.disclosures) and bool(self.run.exposure.get("leverage"))
            before = "0: it is in no sum" if nowhere else "not in this record by client; its report has the largest"
            yield "taking part", "measured when the run is over" if self.run.interrupted else before

    def _epsilons(self) -> Iterator[tuple[str, str]]:
        for unit, epsilon in self.epsilon.items():
            of = self.run.privacy[unit]
            beside = f"; {of['beside']}" if of.get("beside") else ""
            at = f"at delta {number(of.get('delta')):.3g} (budget {number(of.get('budget')):.3g})"
            whom = "it" if unit == "client" else f"any {unit} of it"
            yield "epsilon", f"{up(epsilon)} for {whom}, {at}, of {of.get('of')} alone{beside}"
        if not self.epsilon and (what := noise_of_clients(self.run)):
            yield "epsilon", f"clients {what} with noise: its own record has how much is spent, and this folder has not"
        elif not self.epsilon:
            yield "epsilon", "none: no differential privacy bounds what is said here of it"

    def _belonged(self) -> Iterator[tuple[str, str]]:
        stays = _stays(self.run, self.client)
        yield "at each round's end it was in", "; ".join(stays.values()) or "none in any round"
        last = next(reversed(stays), "")
        if in_slots(self.run) and not self._handed_none:
            mostly = f", mostly {last}" if last else ""
            yield "predicts with", f"the model that it chooses by itself, or a mixture of all by weights of its own{mostly}"
        elif last or self._handed_none:
            file = f"models/{last.replace(' ', '-')}.safetensors"
            there = (Path(self.run.path) / file).is_file()
            if self._handed_none:
                apart = self.client in map(str, self.run.summary.get("apart") or ())
                its = f"; its cluster's is {file} in this folder" if there and not apart else ""
                why = "it was in no cluster" if apart else "it was not there to be handed one"
                yield "predicts with", f"no model of this run: {why}{its}"
            else:
                held = f" ({file})" if there else ", which this folder does not hold"
                own = f"{MADE_OWN}; accuracies are of that" if self.run.summary.get("adapts") else ""
                yield "predicts with", f"the model of cluster {last}{held}{own}"
        seen = [(t, v) for t, line in evaluated(self.run) if (v := scores(self.run, line).get(self.client, number(None))) == v]
        if seen:
            at = [f"{score_words(v, not self.run.in_percent)} in round {t:.0f}" for t, v in dict((seen[0], seen[-1])).items()]
            yield self.run.scale, ", ".join(at)
        for name, away, revoked in who_was_there(self.run):
            if name == self.run.client(self.client):
                said = (("away", "at the end, or without its answer in time, of", away), ("revoked", "in", revoked))
                yield from ((what, f"{at} round{_s(of)} {of}") for what, at, of in said if of)
        rejected: dict[tuple[str, str], list[int]] = {}
        for row in self.run.summary.get("rejected") or []:
            if str(row.get("client")) == self.client:
                kind = "declined" if is_declined(row) else "rejected"
                rejected.setdefault((kind, str(row.get("reason"))), []).append(int(number(row.get("round"))))
        yield from ((kind, f"in round{_s(of)} {in_words(of)}: {reason}") for (kind, reason), of in rejected.items())

    @property
    def _handed_none(self) -> bool:
        """Whether the coordinator had nobody to hand its model to, or its certificate is revoked in the last round."""
        last = len(self.run.rounds) - 1
        gone = any(until >= last for _, until in revoked_in(self.run, self.client))
        return gone or self.client in map(str, self.run.link.get("without_model") or ())

    @property
    def title(self) -> str:
        """Who it is, in which run."""
        group = f", planted group {of}" if (of := self.run.groups.get(self.client)) else ""
        return f"{self.run.client(self.client)}{group}: {self.run.summary.get('name') or self.run.folder}"

    def __str__(self) -> str:
        wide = max(len(name) for name, _ in self.rows)
        return "\n".join([self.title, *(f"{name:{wide}}  {words}" for name, words in self.rows)])

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(words)}</td></tr>" for name, words in self.rows)
        return f'<table style="text-align: left"><caption>{escape(self.title)}</caption><tbody>{cells}</tbody></table>'


def of_client(run: Run, client: object) -> OfClient:
    """client: its id, or its name. Raises ValueError for one that the run does not speak of."""
    ids, wanted = client_ids(run), str(client)
    named = {run.name_of(i): i for i in ids}
    if wanted not in ids and wanted not in named:
        there = f"{ids[0]} to {ids[-1]}" if ids == [str(i) for i in range(len(ids))] and ids else ", ".join(ids) or "none"
        perhaps = "" if wanted.isdigit() else near(wanted, named)
        raise ValueError(f"there is no client {wanted} in {run.path}{perhaps}; its clients: {there}")
    return OfClient(wanted if wanted in ids else named[wanted], run)


def _stays(run: Run, client: str) -> dict[str, str]:
    """Its clusters in the order in which it was in them last, each with its rounds and sizes, in words.

    The round in which its certificate was revoked is the last, though clusters have it still.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    revoked = revoked_in(run, client)
    for k, line in enumerate(run.rounds):
        t = int(number(line.get("round", k)))
        if any(since < t <= until for since, until in revoked):
            continue
        for name, members in (line.get("clusters") or {}).items():
            if client in map(str, members):
                found[name] = [*found.pop(name, []), (t, len(members))]
    words = {}
    for name, of in found.items():
        sizes = sorted({size for _, size in of})
        size = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        words[name] = f"cluster {name}, of {size} client{'s' * (sizes[-1] != 1)} in round{_s(of)} {in_words([t for t, _ in of])}"
    return words


def _unanswered(entry: Row) -> bool:
    return is_unanswered(entry.get("recipient"), entry.get("what"), number(entry.get("scalars")))


def _about(entries: Sequence[Row]) -> tuple[int, int]:
    sizes = [len(set(entry.get("about") or ())) for entry in entries]
    return min(sizes), max(sizes)


def _s(rounds: Iterable[object] | str) -> str:
    """The plural of rounds, given as numbers or in words."""
    several = not rounds.isdecimal() if isinstance(rounds, str) else len(set(rounds)) > 1
    return "s" * several
