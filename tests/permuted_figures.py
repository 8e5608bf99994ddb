"""Attacks on `Permuted` in figures, on MNIST, beside what is expected of them.

The 10,000 test images are the clients' data, the training images what the public knows; an MLP of 784-32-10.

    python -m tests.permuted_figures    # prints the table; some minutes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation, Transform
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.images import Mnist
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Mlp, SoftmaxRegression
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.inference import permutation_dead_relu as dead_relu
from cloister.threat_models.inference import permutation_known as known
from cloister.threat_models.inference import permutation_opened as opened
from cloister.threat_models.inference import permutation_zero_sums as sums
from cloister.threat_models.inference import permutation_zeros as zeros
from cloister.threat_models.inference.label_regression import top_label, total_variation
from cloister.threat_models.inference.permutation_cosines import by_cosines, unit
from cloister.threat_models.inference.permutation_scores import (
    energy,
    moved,
    precision_and_recall,
    psnr,
    recovery,
    relative_error,
    similarity_correlation,
)
from cloister.threat_models.inference.permutation_seed import brute_force
from cloister.threat_models.inference.permutation_shadow import Seen, ShadowLabels, features
from cloister.threat_models.inference.rotation_known import in_span, key_of
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Fixed

from .permuted_runs import Array, Dead, DirichletEach, MnistTest, OneClass, OneKnown, Played, played

WIDTH, PIXELS, CLASSES, LR = 32, 784, 10, 0.1
MODEL = Mlp(hidden=(WIDTH,))
TRAINING = Training(epochs=1, batch=50, lr=LR)
SIGNED = {Permutation: False, SignedPermutation: True}


@dataclass(frozen=True)
class Figure:
    """attack: which, with its adversary and side information. measured: beside the bounds low and high that it must be within."""

    attack: str
    name: str
    measured: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        return self.low <= self.measured <= self.high

    def __str__(self) -> str:
        verdict = "" if self.holds else "  OUT"
        return f"{self.attack:50} {self.name:44} {self.measured:10.5g}   {self.low:.5g} .. {self.high:.5g}{verdict}"


@cache
def public() -> Examples:
    return Mnist()(None).train


@cache
def run(transform: type[Transform], rounds: int, keys: str = "run", clients: int = 20) -> Played:
    return played(MnistTest(), Iid(clients=clients), MODEL, TRAINING, transform, rounds, keys)


def released(run: Played, *rounds: int) -> tuple[Array, Array]:
    """What released models differ from theta_0 by, and what the server published until then."""
    clear = [run.models[t] - run.start for t in rounds]
    means = [np.sum([run.server.means[s].astype(np.float64) for s in range(t)], axis=0) for t in rounds]
    return np.stack(clear), np.stack(means).astype(np.float32)


def every(vectors: Sequence[Array]) -> Array:
    return np.concatenate(list(vectors))


def known_updates(transform: type[Transform]) -> Iterator[Figure]:
    name, signed = f"A1 {transform.__name__}, a known update", SIGNED[transform]
    seen = run(transform, 20)
    others = seen.clients[1:]
    sent, clear = every([seen.sent(i) for i in seen.clients]), every([seen.computed(i) for i in seen.clients])
    for r, least in ((1, 0.99), (6, 0.999)):
        guess = known.known_plaintext(seen.computed(0)[:r], seen.sent(0)[:r], signed)
        got = recovery(guess, clear, sent)
        yield Figure(name, f"{r} rounds: coordinates recovered", got.recovered, 0.55, 0.8)
        yield Figure(name, f"{r} rounds: wrong ones", got.wrong, 0, 0)
        victims = [energy(guess.opened(seen.sent(i)[:r]), seen.computed(i)[:r]) for i in others]
        yield Figure(name, f"{r} rounds: energy of the worst victim", min(victims), least, 1)
    name = f"A2 {transform.__name__}, theta_0 and released models"
    (one, of_one), (two, of_two) = released(seen, 20), released(seen, 10, 20)
    for count, guess, most in (
        (1, known.by_rank(one[0], of_one[0], signed), 0.1),
        (2, known.by_nearest(two, of_two, signed), 0.01),
    ):
        yield Figure(name, f"{count} released: values recovered", moved(guess.opened(sent), clear), 0.98, 1)
        yield Figure(name, f"{count} released: victims' relative error", relative_error(guess.opened(sent), clear), 0, most)
    seen = run(transform, 2, "session")
    guess = known.known_plaintext(seen.computed(0)[:1], seen.sent(0)[:1], signed)
    name = f"A1 {transform.__name__}, session keys"
    yield Figure(name, "same round: energy", energy(guess.opened(seen.received(0)), seen.meant(0)), 0.99, 1)
    yield Figure(name, "next round: energy", energy(guess.opened(seen.received(1)), seen.meant(1)), -9, 0.05)


def rotations() -> Iterator[Figure]:
    seen, rng = run(HadamardRotation, 20), np.random.default_rng(0)
    others = every([seen.sent(i) for i in seen.clients[1:]])
    clear = every([seen.computed(i) for i in seen.clients[1:]])
    name = "A1 HadamardRotation, a known update"
    for r in (1, 6, 20):
        within = in_span(seen.computed(0)[:r], seen.sent(0)[:r], others)
        yield Figure(name, f"span of {r} rounds, any linear map: energy", energy(within, clear), 0.2, 0.95)
    for r in (1, 6):
        guess = key_of(seen.computed(0)[:r], seen.sent(0)[:r], rng)
        yield Figure(name, f"{r} rounds: misfit of the key", guess.misfit, 0, 1e-5)
        victims = [energy(guess.opened(seen.sent(i)[:r]), seen.computed(i)[:r]) for i in seen.clients[1:]]
        yield Figure(name, f"{r} rounds: energy of the worst victim", min(victims), 0.99, 1)
    guess = key_of(*released(seen, 20), rng)
    got = relative_error(guess.opened(others), clear)
    yield Figure("A2 HadamardRotation, theta_0, released model", "1 released: victims' relative error", got, 0, 0.01)
    seen = run(HadamardRotation, 2, "session")
    guess = key_of(seen.computed(0)[:1], seen.sent(0)[:1], rng)
    name = "A1 HadamardRotation, session keys"
    yield Figure(name, "same round: energy", energy(guess.opened(seen.received(0)), seen.meant(0)), 0.99, 1)
    yield Figure(name, "next round: energy", energy(guess.opened(seen.received(1)), seen.meant(1)), -9, 0.05)
    jobs = [
        Job(i, seen.start, public().take(torch.from_numpy(rng.integers(len(public()), size=500))), int(rng.integers(2**60)))
        for i in range(20)
    ]
    likeness = np.mean([v for _, v in Fast()(seen.module, jobs, TRAINING, 0)], axis=0)
    guess = key_of(likeness[None], seen.server.means[0][None], rng, most=0)
    name = "HadamardRotation, theta_0 and public data"
    yield Figure(name, "iid clients: energy of single updates", energy(guess.opened(seen.received(0)), seen.meant(0)), 0.8, 1)


def decays(transform: type[Transform]) -> Iterator[Figure]:
    name, signed = f"A3 {transform.__name__}, theta_0, dead pixels", SIGNED[transform]
    for decay, rounds, least, alone in ((5e-4, 1, 0.4, 0.1), (5e-4, 20, 0.77, 0.5), (1e-2, 20, 0.92, 0.7)):
        training = Training(epochs=1, batch=50, lr=LR, weight_decay=decay)
        seen = played(MnistTest(), Iid(clients=10), MODEL, training, transform, rounds)
        lit = np.any([seen.population.clients[i].train.x.flatten(1).numpy().any(axis=0) for i in seen.clients], axis=0)
        dead = np.zeros(len(seen.start), bool)
        dead[: WIDTH * PIXELS] = np.tile(~lit & ~public().x.flatten(1).numpy().any(axis=0), WIDTH)
        totals = np.stack([seen.sent(i).sum(axis=0, dtype=np.float64) for i in seen.clients])
        clear, sent = every([seen.computed(i) for i in seen.clients]), every([seen.sent(i) for i in seen.clients])
        shrink = zeros.shrink_of(LR, decay, 20 * rounds)
        for who, of, bound in (("all clients' uploads", totals, least), ("one client's", totals[:1], alone)):
            guess = zeros.by_weight_decay(seen.start, of, shrink, dead, signed)
            found = recovery(guess, clear, sent, dead).recovered
            yield Figure(name, f"decay {decay}, {rounds} rounds, {who}", found, bound if not signed else bound / 2, 1)


def supports(transform: type[Transform]) -> Iterator[Figure]:
    name = f"A4 {transform.__name__}, server alone, linear model"
    seen = played(MnistTest(), Dirichlet(clients=10, alpha=0.5), SoftmaxRegression(), TRAINING, transform, 2)
    lit = np.stack([seen.population.clients[i].train.x.flatten(1).numpy().any(axis=0) for i in seen.clients]).astype(float)
    both = lit @ lit.T
    true = both / (lit.sum(axis=1)[:, None] + lit.sum(axis=1)[None, :] - both)
    uploads = seen.received(0)
    if transform is HadamardRotation:
        yield Figure(name, "zeros in uploads", float((uploads == 0).sum()), 0, 5)
        return
    exact = (zeros.lit_features(uploads, CLASSES) == lit.sum(axis=1)).sum()
    yield Figure(name, "clients of 10 whose lit features are exact", exact, 10, 10)
    yield Figure(name, "error of supports' Jaccard", np.abs(zeros.support_similarity(uploads, CLASSES) - true).max(), 0, 1e-12)
    yield Figure(name, "zeros shared by two rounds, to chance", zeros.shared_zeros(uploads, seen.received(1)), 3, 99)
    seen = played(MnistTest(), Dirichlet(clients=10, alpha=0.5), SoftmaxRegression(), TRAINING, transform, 2, "session")
    linked = zeros.shared_zeros(seen.received(0), seen.received(1))
    yield Figure(name, "the same under session keys", linked, 0.7, 1.4)


def dead_models() -> Iterator[Figure]:
    q, one_step = dead_relu.distinct_answers(CLASSES, 100), Training(epochs=1, batch=100, lr=LR)
    for transform, signed in SIGNED.items():
        who = DirichletEach(clients=20, each=100, alpha=0.5)
        seen = played(MnistTest(), who, Dead(tuple(q), WIDTH), one_step, transform, 1, "session")
        samples = np.array([seen.server.samples[0, i] for i in seen.clients])
        apart = np.abs(dead_relu.histograms(seen.received(0), samples, q, LR, signed) - seen.histograms()).max(axis=1)
        yield Figure(f"A5 {transform.__name__}, chose theta_0", "histograms exact, of 20", int((apart < 1e-9).sum()), 20, 20)
    q = dead_relu.spread_answers(CLASSES)
    who = OneClass(clients=20, each=100)
    seen = played(MnistTest(), who, Dead(tuple(q), WIDTH), one_step, HadamardRotation, 1, "session")
    right = (dead_relu.only_labels(seen.received(0), q, LR) == seen.histograms().argmax(axis=1)).sum()
    yield Figure("A5 HadamardRotation, chose theta_0", "label of single-class clients, of 20", int(right), 20, 20)


def shadows(
    seen: Played, histograms: NDArray[np.float64], each: int, training: Training, rng: np.random.Generator
) -> tuple[Array, Any]:
    """Updates from theta_0 on public data of these label shares, and the shares as they came out."""
    places = [np.flatnonzero(public().y.numpy() == k) for k in range(CLASSES)]
    counts = np.stack([rng.multinomial(each, h) for h in histograms])
    index = [np.concatenate([rng.choice(places[k], n) for k, n in enumerate(c)]) for c in counts]
    jobs = [Job(i, seen.start, public().take(torch.from_numpy(at)), int(rng.integers(2**60))) for i, at in enumerate(index)]
    return np.stack([v for _, v in Fast()(seen.module, jobs, training, 0)]), counts / each


def learned_labels() -> Iterator[Figure]:
    rng = np.random.default_rng(5)
    how: tuple[tuple[type[Transform], Seen, float, float], ...] = (
        (Permutation, "values", 0.9, 0.5),
        (SignedPermutation, "magnitudes", 0.9, 0.4),
        (HadamardRotation, "norm", 0.25, 0.0),
    )
    one_step = Training(epochs=1, batch=500, lr=LR)
    for kind, who, wanted, each, training in (
        ("single-class", OneClass(clients=20, each=400), np.eye(CLASSES)[np.arange(300) % CLASSES], 400, TRAINING),
        ("Dirichlet(.3)", DirichletEach(clients=100, each=500, alpha=0.3), rng.dirichlet(np.full(10, 0.3), 300), 500, one_step),
    ):
        made: tuple[Array, Any] | None = None
        for transform, what, single, skewed in how:
            seen = played(MnistTest(), who, MODEL, training, transform, 1, "session")
            made = made or shadows(seen, wanted, each, training, rng)
            guess = ShadowLabels.learned(features(made[0], what), made[1]).histograms(features(seen.received(0), what))
            true, name = seen.histograms(), f"A6 {transform.__name__}, theta_0, public data"
            least = single if kind == "single-class" else skewed
            yield Figure(name, f"{kind}: top label (chance .1)", float(top_label(guess, true).mean()), least, 1)
            if kind != "single-class" and transform is Permutation:
                prior = np.broadcast_to(made[1].mean(axis=0), true.shape)
                yield Figure(name, f"{kind}: TV", float(total_variation(guess, true).mean()), 0.2, 0.47)
                yield Figure(name, f"{kind}: TV of the prior", float(total_variation(prior, true).mean()), 0.47, 0.65)


def seeds() -> Iterator[Figure]:
    seen, secret = run(Permutation, 20), 4242
    d = len(seen.start)
    dead = np.zeros(d, bool)
    dead[: WIDTH * PIXELS] = np.tile(~public().x.flatten(1).numpy().any(axis=0), WIDTH)

    def order_of(seed: int) -> NDArray[np.int64]:
        return np.random.RandomState(seed).permutation(d)

    upload = seen.computed(0)[0][order_of(secret)]
    scores = brute_force(upload, range(2**13), order_of, dead)
    name = "A7 a seed of 13 bits, numpy's generator"
    yield Figure(name, "rank of the true seed", int((scores > scores[secret]).sum()), 0, 0)
    yield Figure(name, "score of the true seed", scores[secret], 0.7, 1)
    yield Figure(name, "score of the best wrong one", np.delete(scores, secret).max(), 0, 0.5)


def groups_of(width: int, inputs: int, outputs: int) -> list[frozenset[int]]:
    """Coordinates of an MLP with one hidden layer that add up to 0; the last group is the output's bias."""
    start = inputs * width + width
    of_units = [frozenset(range(start + j, start + width * outputs, width)) for j in range(width)]
    return [*of_units, frozenset(range(start + width * outputs, start + width * outputs + outputs))]


def zero_sums() -> Iterator[Figure]:
    true = groups_of(WIDTH, PIXELS, CLASSES)
    for transform in (Permutation, SignedPermutation):
        seen = played(MnistTest(), Dirichlet(clients=20, alpha=0.5), MODEL, TRAINING, transform, 60)
        sent, clear = every([seen.sent(i) for i in seen.clients]), every([seen.computed(i) for i in seen.clients])
        order = known.known_plaintext(clear, sent, SIGNED[transform]).order
        found = sums.zero_sums(sent, CLASSES)
        precision, recall = precision_and_recall(found.members, order, true)
        name = f"A8 {transform.__name__}, server alone"
        yield Figure(name, "1,200 observations: groups found, of 33", recall * 33, 15, 33)
        yield Figure(name, "share of them right", precision, 1, 1)
        fewer = sums.zero_sums(every([seen.sent(i)[:20] for i in seen.clients]), CLASSES)
        yield Figure(name, "400 observations: groups found", len(fewer.members), 0, 0)
        if transform is Permutation and len(found.members):
            bias = sums.largest_group(seen.received(0), found)
            yield Figure(name, "bias named", float(frozenset(order[found.members[bias]].tolist()) == true[-1]), 1, 1)
            alike = sums.label_similarity(seen.received(0), found.members[bias])
            corr = similarity_correlation(alike, seen.histograms())
            yield Figure(name, "clients' label similarity: correlation", corr, 0.85, 1)


def inversions() -> Iterator[Figure]:
    who = OneKnown(clients=51, many=2000)
    seen = played(MnistTest(), who, MODEL, Training(epochs=1, batch=50, lr=LR), Permutation, 1)
    guess = known.known_plaintext(seen.computed(0), seen.sent(0))
    updates, clients = guess.opened(seen.received(0)[1:]), [seen.population.clients[i].train for i in seen.clients[1:]]
    images = np.stack([opened.first_layer_input(u, WIDTH, PIXELS) for u in updates])
    quality = psnr(images, np.stack([c.x.numpy().reshape(-1) for c in clients]))
    name = "A11 Permutation, a known update, batch of 1"
    yield Figure(name, "images: median PSNR in dB", float(np.median(quality)), 120, 400)
    hits = sum(opened.only_label(u, CLASSES) == int(c.y[0]) for u, c in zip(updates, clients, strict=True))
    yield Figure(name, "labels right, of 50", hits, 50, 50)
    who_else = DirichletEach(clients=20, each=200, alpha=0.5)
    seen = played(MnistTest(), who_else, MODEL, Training(epochs=1, batch=200, lr=LR), Permutation, 1)
    with torch.no_grad():
        answers = seen.module(public().x[:5000]).softmax(1).mean(0).double().numpy()
    guess = known.known_plaintext(seen.computed(0), seen.sent(0))
    shares = opened.label_shares(guess.opened(seen.received(0)), answers, LR)
    apart = float(total_variation(shares, seen.histograms()).mean())
    yield Figure("A11 Permutation, a known update, one step", "label histograms: TV", apart, 0, 0.02)


@dataclass(frozen=True)
class Probe:
    """Each member claims one unit vector."""

    coordinates: tuple[int, ...]
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Any, /) -> Array:
        return unit(len(own.update), self.coordinates[own.place])


def probed(transform: type[Transform], data: Any, model: Any, probes: int, d: int, clients: int = 20) -> tuple[Any, Array]:
    """What corrupt clients read of the last coordinates of all others' updates from cosines of six decimals, and the truth."""
    adversary = Adversary(members=Fixed(tuple(range(probes))), upload=Probe(tuple(range(d - probes, d))))
    seen = played(data, Dirichlet(clients=clients, alpha=0.5), model, TRAINING, transform, 1, "session", adversary=adversary)
    uploads = seen.received(0).astype(np.float64)
    norms = np.linalg.norm(uploads, axis=1)
    cosines = np.round(uploads @ uploads.T / np.outer(norms, norms), 6)
    return by_cosines(cosines[:probes, probes:], norms[probes:]), seen.meant(0)[probes:, d - probes :]


def probes() -> Iterator[Figure]:
    for transform in (Permutation, SignedPermutation, HadamardRotation):
        read, true = probed(transform, MnistTest(), MODEL, CLASSES, 25_450)
        apart = float(np.median(np.abs(read - true) / np.abs(true)))
        yield Figure(f"A13 {transform.__name__}, published cosines", "relative error of bias entries", apart, 0, 1e-4)


def figures() -> Iterator[Figure]:
    for transform in SIGNED:
        yield from known_updates(transform)
    yield from rotations()
    for transform in SIGNED:
        yield from decays(transform)
    for transform in (Permutation, SignedPermutation, HadamardRotation):
        yield from supports(transform)
    for part in (dead_models, learned_labels, seeds, zero_sums, inversions, probes):
        yield from part()


if __name__ == "__main__":
    for figure in figures():
        print(figure, flush=True)
