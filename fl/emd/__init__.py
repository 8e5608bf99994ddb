"""The distances of EMD-CFL: embeddings, subsamples, earth mover's distances, certified decisions, and clusters from them.

A client accepts another if W - tau < eps, where W is the distance of its own embeddings to the other's and tau that to its own
validation data. `decisions` answers that for many pairs as the exact solver would, mostly without it.
"""

from .bounds import Couplings, Gelbrich, Interval, Moments, Pair, Projections, Relaxed, Stage
from .calibration import Calibration, excess, from_distances, from_references, from_replicates
from .clusters import adjacency, components, majorities, neighbourhoods
from .decision import LADDER, Decision, decide
from .distances import Cosine, Distance, Euclidean, ExactEmd, Ground, MeanDistance, Sinkhorn, transport
from .embedding import Embedding, embed
from .pairs import Cores, Problem, decisions, distances
from .subsample import Size, positions, stratified, subsample

__all__ = [
    "LADDER",
    "Calibration",
    "Cores",
    "Cosine",
    "Couplings",
    "Decision",
    "Distance",
    "Embedding",
    "Euclidean",
    "ExactEmd",
    "Gelbrich",
    "Ground",
    "Interval",
    "MeanDistance",
    "Moments",
    "Pair",
    "Problem",
    "Projections",
    "Relaxed",
    "Sinkhorn",
    "Size",
    "Stage",
    "adjacency",
    "components",
    "decide",
    "decisions",
    "distances",
    "embed",
    "excess",
    "from_distances",
    "from_references",
    "from_replicates",
    "majorities",
    "neighbourhoods",
    "positions",
    "stratified",
    "subsample",
    "transport",
]
