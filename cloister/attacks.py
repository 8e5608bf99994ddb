"""Who is corrupt and what they do: what a `Scenario`'s `adversary` is made of, and an `Evaluation` of many such runs.

Functions return whole suites of attacks, by name, as an `Evaluation` takes them.
"""

import typing as _typing

from .threat_models.a3fl import A3FL
from .threat_models.adversary import Adversary
from .threat_models.alternating import AlternatingMinimisation
from .threat_models.backdoors import Backdoor, DistributedBackdoor, EdgeCase
from .threat_models.breakdown import Steps
from .threat_models.cerp import CerP, TunedTrigger
from .threat_models.chameleon import Chameleon
from .threat_models.cluster_attacks import Bridge, CloakedCollusion, Hider, VictimCapture
from .threat_models.cluster_timing import Fragmentation
from .threat_models.collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum
from .threat_models.critical_layers import CriticalLayers
from .threat_models.dividing import FlippedClasses, OneWay, TwoKinds, Unshared
from .threat_models.evaluation import Bounds, Evaluation, Informed
from .threat_models.forged_choices import Pretended, SameAs, WorstModel
from .threat_models.forged_embeddings import ForgedEmbeddings
from .threat_models.functions import OfHonest
from .threat_models.knowledge import Colluding, Insider, Level, Omniscient, Own, Situation, forged
from .threat_models.label_attacks import DynamicLabelFlip, LabelFlip, LabelShuffle, PairNoise, SwappedLabels, SymmetricNoise
from .threat_models.liars import KernelPoison
from .threat_models.membership import Fixed, PerRound, Pool, Schedule, Share
from .threat_models.offers import Offered
from .threat_models.search.fields import Span
from .threat_models.semantic import CornerPatches, GreenDigits, SpuriousGreen, SpuriousPatch
from .threat_models.similarity_attacks import Faker, LoneFaker
from .threat_models.simple_attacks import (
    GaussianNoise,
    MinusGradient,
    NormBounded,
    Null,
    RandomVector,
    Scaled,
    SignFlip,
    Stale,
)
from .threat_models.suites import backdoors, choices, embeddings, insiders, schedules, strongest, untargeted, usual_evaluation
from .threat_models.tailored import Tailored
from .threat_models.targeted_uploads import ArbitraryTarget, Mimic
from .threat_models.together import Together
from .threat_models.training_attacks import ConstrainAndScale, GradientAscent, Neurotoxin, ProjectedDescent
from .threat_models.triggers import Blend, Parts, Patch, Pixels, Sinusoid
from .threat_models.variants import Jittered, SignBalanced
from .told_in_python import told as _told

__all__ = [
    "A3FL",
    "ALIE",
    "IPM",
    "Adversary",
    "AlternatingMinimisation",
    "ArbitraryTarget",
    "Backdoor",
    "Blend",
    "Bounds",
    "Bridge",
    "CerP",
    "Chameleon",
    "CloakedCollusion",
    "Colluding",
    "ConstrainAndScale",
    "CornerPatches",
    "CriticalLayers",
    "DistributedBackdoor",
    "DynamicLabelFlip",
    "EdgeCase",
    "Evaluation",
    "Faker",
    "FangKrum",
    "FangTrim",
    "Fixed",
    "FlippedClasses",
    "ForgedEmbeddings",
    "Fragmentation",
    "GaussianNoise",
    "GradientAscent",
    "GreenDigits",
    "Hider",
    "Informed",
    "Insider",
    "Jittered",
    "KernelPoison",
    "LabelFlip",
    "LabelShuffle",
    "Level",
    "LoneFaker",
    "Mimic",
    "MinMax",
    "MinSum",
    "MinusGradient",
    "Neurotoxin",
    "NormBounded",
    "Null",
    "OfHonest",
    "Offered",
    "Omniscient",
    "OneWay",
    "Own",
    "PairNoise",
    "Parts",
    "Patch",
    "PerRound",
    "Pixels",
    "Pool",
    "Pretended",
    "ProjectedDescent",
    "RandomVector",
    "SameAs",
    "Scaled",
    "Schedule",
    "Share",
    "SignBalanced",
    "SignFlip",
    "Sinusoid",
    "Situation",
    "Span",
    "SpuriousGreen",
    "SpuriousPatch",
    "Stale",
    "Steps",
    "SwappedLabels",
    "SymmetricNoise",
    "Tailored",
    "Together",
    "TunedTrigger",
    "TwoKinds",
    "Unshared",
    "VictimCapture",
    "WorstModel",
    "backdoors",
    "choices",
    "embeddings",
    "forged",
    "insiders",
    "schedules",
    "strongest",
    "untargeted",
    "usual_evaluation",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
