"""Another client's inputs, by an embedding model that copies them.

Adversary: a client of the pair, which sends any embedding model it likes, with the server, which has the projected cloud that the
other client makes by it; where clients measure distances, the client alone, as it is shown the embeddings themselves. Side
information: none with a model wide enough to copy an input whole; public inputs, for their main directions, with a narrower one.

Models here are one linear layer and a ReLU, x -> relu(W x + b), the embedding of `Mlp(hidden=(h,))`, whose weights are W, float32
(h, inputs) row by row, and then b, (h,). Behind a convolution a model copies what passes it, which is not done here.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .projection_known import Matrix, Moments, Rows, linear, non_negative


@dataclass(frozen=True, slots=True, eq=False)
class Copying:
    """Embeddings W x + b. functionals: W, float64 (h, inputs). offset: b, float64 (h,), so that nothing is cut off at 0."""

    functionals: Matrix = field(repr=False)
    offset: Matrix = field(repr=False)

    @property
    def weights(self) -> NDArray[np.float32]:
        """The embedding model that is sent: float32 (h * inputs + h,)."""
        return np.concatenate([self.functionals.ravel(), self.offset]).astype(np.float32)


def whole(inputs: int, hidden: int) -> Copying:
    """Copies inputs that are not negative as they are. Raises ValueError for a layer narrower than an input."""
    if hidden < inputs:
        raise ValueError(f"{hidden} coordinates do not hold {inputs} inputs; take `main_directions`")
    return Copying(np.eye(hidden, inputs), np.zeros(hidden))


def main_directions(public: Rows, hidden: int, largest: float = 1.0) -> Copying:
    """Copies inputs from 0 to `largest` along the directions in which public ones vary most, float (m, inputs), m > hidden.

    Raises ValueError for fewer public inputs than directions.
    """
    if len(public) <= hidden:
        raise ValueError(f"{len(public)} public inputs do not give {hidden} directions")
    centred = public.astype(np.float64) - public.mean(axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    directions = vectors[:, ::-1][:, :hidden].T
    return Copying(directions, -largest * np.minimum(directions, 0).sum(axis=1))


def inputs_whole(released: Rows, projection: Matrix, sent: Copying) -> Matrix:
    """Inputs that are not negative, from the cloud (n, p) that this model and this projection (d, p) gave: float64 (n, inputs).

    Exact where they have zeros enough, as in `non_negative`. Without a projection give the identity.
    """
    return non_negative(released - sent.offset @ projection, sent.functionals.T @ projection)


def inputs_by_public(released: Rows, projection: Matrix, sent: Copying, public: Rows) -> Matrix:
    """The best linear estimate of inputs whose mean and covariance are those of public ones: float64 (n, inputs)."""
    return linear(released - sent.offset @ projection, sent.functionals.T @ projection, Moments.of(public))


def joined(clouds: list[Rows], projections: list[Matrix], sent: list[Copying]) -> tuple[Rows, Matrix, Copying]:
    """Several colluders' clouds of the same rows as one, for the functions above: more numbers on every input."""
    released = np.concatenate([y - s.offset @ r for y, r, s in zip(clouds, projections, sent, strict=True)], axis=1)
    seen = np.concatenate([s.functionals.T @ r for r, s in zip(projections, sent, strict=True)], axis=1)
    inputs = seen.shape[0]
    return released, seen, Copying(np.eye(inputs), np.zeros(inputs))
