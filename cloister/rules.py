"""Robust rules that a server may aggregate by: what `algorithms.RobustFedAvg` and `algorithms.HardenedFLIC` take.

`RobustFedAvg` takes a function of all updates, too, and so another library's aggregator; `OfGram` makes a rule of a function of
the Gram matrix. `Sight` is what a rule of one's own
says that it must see.
"""

import typing as _typing

from .fl.robust.aggregate import aggregate
from .fl.robust.averages import Mean, NormBound
from .fl.robust.clustering import FLAME, CFLDefence, ClippedClustering
from .fl.robust.coordinates import (
    Bulyan,
    Meamed,
    MeanAroundMedian,
    Median,
    Phocas,
    RobustLearningRate,
    TrimmedMean,
)
from .fl.robust.diameter import MDA, SMEA
from .fl.robust.frequency import FreqFed
from .fl.robust.function import OfGram
from .fl.robust.krum import Krum, MultiKrum
from .fl.robust.krum_share import KrumOfShare
from .fl.robust.layers import LASA, sizes_of
from .fl.robust.mixing import ARC, NNM, Bucketing, Clip, Mixed
from .fl.robust.rule import Sight
from .fl.robust.signs import SignGuard
from .fl.robust.similarity import FLTrust, FoolsGold
from .fl.robust.smoothing import CRFL
from .fl.robust.spectral import CAF, DnC
from .fl.robust.weiszfeld import RFA, CenteredClipping, GeometricMedian
from .told_in_python import told as _told

__all__ = [
    "ARC",
    "CAF",
    "CRFL",
    "FLAME",
    "LASA",
    "MDA",
    "NNM",
    "RFA",
    "SMEA",
    "Bucketing",
    "Bulyan",
    "CFLDefence",
    "CenteredClipping",
    "Clip",
    "ClippedClustering",
    "DnC",
    "FLTrust",
    "FoolsGold",
    "FreqFed",
    "GeometricMedian",
    "Krum",
    "KrumOfShare",
    "Meamed",
    "Mean",
    "MeanAroundMedian",
    "Median",
    "Mixed",
    "MultiKrum",
    "NormBound",
    "OfGram",
    "Phocas",
    "RobustLearningRate",
    "Sight",
    "SignGuard",
    "TrimmedMean",
    "aggregate",
    "sizes_of",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
