"""What experiments seek, in words, and claims that say of several what one protection keeps from one observer."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..audit.claim import Claim, Given, Whose, always
from ..audit.observer import Observer
from .observers import client_alone, two_clients
from .runs import any_run, encrypted, hidden_from, masked, pairs, permuted, two_servers_at_all

SOUGHT = {
    "updates": ("what sets a client's update apart from its cluster's mean", "how updates vary, from a run of its own"),
    "labels": ("the histogram of a client's labels", "a run of its own of the same kind, whose data it knows"),
    "membership": ("whether a client has a record", "the records in question, public examples, and a run and models of its own"),
    "images": ("a client's examples", "the network, and the labels of the examples"),
    "property": ("whether a property holds of a client's data", "public examples, to make up clients with it and without"),
    "clusters": ("which clients share a cluster", "the ids of all clients"),
    "disaggregation": ("what a client sends, pieced together of sums over rounds", "who took part in which sum"),
    "counts": ("how many samples a client has", "who took part in which sum"),
    "permutation": ("the places of an update's values, and so the update", "the initial model, and public data of the same kind"),
    "embeddings": ("embeddings of a client's records", "public data of the same kind"),
    "ckks key": ("the secret key of the clients", "ciphertexts, and every number that it was told"),
    "inconsistent models": ("one client's update, by a model that the others were not sent", "it makes the models, and lies"),
}
"""By experiment: what is sought, and what the attacker knows beside its view."""


KIN: Mapping[str, Callable[[Any, Any], bool]] = {
    "masked": masked,
    "two_servers": two_servers_at_all,
    "ckks": encrypted,
    "permuted": permuted,
    "emd": pairs,
    "links": any_run,
}
"""By protocol: the runs of which somebody might expect its claims, be it that they apply or not."""

LESS = "the published sums less their own part tell"
"""What clients may find out: how much that is more than the sums tell depends on how unlike the others they are."""


def kept(
    protocol: str,
    experiments: str,
    observer: tuple[str, str, Callable[[Observer], bool]],
    applies: Callable[[Any, Any], bool],
    where: str,
    bound: float,
    whose: Whose = "Cloister",
    beyond: str = "the published sums tell",
    given: Given = always,
) -> Iterator[Claim]:
    """One claim an experiment, of those named, separated by commas: id "protocol.experiment.observer".

    observer: who finds out nothing: for the id, in words, and as a predicate. where: the runs that `applies` to, in words.
    beyond: what may be found out. given: of recorded runs, by their sums, which of them it is about. Raises KeyError for an
    experiment that has no words.
    """
    name, who, adversary = observer
    for experiment in map(str.strip, experiments.split(",")):
        sought, side = SOUGHT[experiment]
        yield Claim(
            id=f"{protocol}.{experiment.replace(' ', '-')}.{name}",
            statement=f"{where}: over the whole run, {who} can find out no more about {sought} than {beyond}",
            whose=whose,
            applies=applies,
            adversary=adversary,
            side_information=side,
            experiment=experiment,
            bound=bound,
            where=where,
            who=who,
            kin=KIN[protocol],
            given=given,
        )


def kept_from_clients(
    protocol: str, experiments: str, applies: Callable[[Any, Any], bool], where: str, most: int = 2
) -> Iterator[Claim]:
    """Of one client alone and, if `most` is 2, of two together, where the least sum has three others in it."""
    for count, observer in enumerate((("client", "one client", client_alone), ("two-clients", "two clients", two_clients)), 1):
        if count <= most:
            more = "" if count == 1 else "s"
            others = f"floor=3 or more with {count} corrupt client{more} that it reckons with"
            inside = f"{where}, {others}, no sums for single clients, no records shown"
            yield from kept(protocol, experiments, observer, partial(_both, applies, count), inside, 0.1, beyond=LESS)


def uniform(
    protocol: str,
    observer: tuple[str, str, Callable[[Observer], bool]],
    applies: Callable[[Any, Any], bool],
    where: str,
    what: str,
) -> Iterator[Claim]:
    """That what hides an update does: of the words that the server is sent, and judged by tests in the place of an attack.

    what: is uniform, and used once.
    """
    name, who, adversary = observer
    words = f"{what} is uniform, and used once, in all that {who} is sent"
    yield Claim(
        id=f"{protocol}.masks.{name}",
        statement=f"{where}: over the whole run, {words}",
        whose="Cloister",
        applies=applies,
        adversary=adversary,
        side_information="none: the scorer takes off what was put in",
        experiment="masks",
        bound=0.0,
        where=where,
        who=who,
        kin=KIN[protocol],
    )


def floor_kept(
    protocol: str, observer: tuple[str, str, Callable[[Observer], bool]], applies: Callable[[Any, Any], bool], where: str
) -> Iterator[Claim]:
    """That no combination of published sums rests on too few clients: judged by a test of all sums in the place of an attack."""
    name, who, adversary = observer
    words = "1 / (floor + corrupt) of the squared weights in any combination of the sums that are published in one round"
    yield Claim(
        id=f"{protocol}.floor.{name}",
        statement=f"{where}: over the whole run, no client has more than {words}, of updates or gradients alike, against {who}",
        whose="Cloister",
        applies=applies,
        adversary=adversary,
        side_information="none: rows are public, and the scorer knows how many samples clients have",
        experiment="floor",
        bound=0.0,
        where=where,
        who=who,
        kin=KIN[protocol],
    )


def _both(applies: Callable[[Any, Any], bool], count: int, protection: Any, algorithm: Any) -> bool:
    return applies(protection, algorithm) and hidden_from(count, protection, algorithm)
