"""The attacks that a search draws from, and those that it leaves aside.

What each replaces, and what its numbers may be, its own types say (`space.slot_of`, `fields`). The order is that in which their
usual forms are tried.
"""

from ..a3fl import A3FL
from ..alternating import AlternatingMinimisation
from ..backdoors import Backdoor, DistributedBackdoor, EdgeCase
from ..chameleon import Chameleon
from ..cluster_attacks import Bridge, CloakedCollusion, Hider, Tilted, VictimCapture
from ..cluster_timing import Fragmentation
from ..collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum
from ..critical_layers import CriticalLayers
from ..dividing import FlippedClasses, OneWay, TwoKinds, Unshared
from ..forged_choices import Pretended, SameAs, WorstModel
from ..label_attacks import DynamicLabelFlip, LabelFlip, LabelShuffle, PairNoise, SwappedLabels, SymmetricNoise
from ..line_search import LineSearched
from ..semantic import SpuriousGreen, SpuriousPatch
from ..similarity_attacks import Faker, LoneFaker
from ..simple_attacks import GaussianNoise, Honest, MinusGradient, Null, RandomVector, Scaled, SignFlip, Stale
from ..tailored import Tailored
from ..targeted_uploads import ArbitraryTarget, Mimic
from ..together import Together
from ..training_attacks import ConstrainAndScale, GradientAscent, Neurotoxin, ProjectedDescent

ATTACKS: tuple[type, ...] = (
    MinusGradient,
    IPM,
    ALIE,
    MinMax,
    MinSum,
    LineSearched,
    Tailored,
    FangKrum,
    FangTrim,
    SignFlip,
    Scaled,
    RandomVector,
    Mimic,
    LabelFlip,
    Backdoor,
    WorstModel,
    GradientAscent,
    Hider,
    CloakedCollusion,
    Tilted,
    VictimCapture,
    Fragmentation,
    Faker,
    LoneFaker,
    FlippedClasses,
    TwoKinds,
    Unshared,
    OneWay,
    Together,
    Null,
    Stale,
    GaussianNoise,
    Bridge,
    DynamicLabelFlip,
    LabelShuffle,
    SwappedLabels,
    SymmetricNoise,
    PairNoise,
    DistributedBackdoor,
    EdgeCase,
    SpuriousPatch,
    SpuriousGreen,
    A3FL,
    Neurotoxin,
    ConstrainAndScale,
    ProjectedDescent,
    AlternatingMinimisation,
    CriticalLayers,
    Chameleon,
    Pretended,
    SameAs,
    ArbitraryTarget,
    Honest,
)
AT_REQUEST = {
    "A3FL": "200 passes over a member's data in every round are slow",
    "SpuriousGreen": "it is about images of three channels",
}
"""Left aside unless they are asked for by name, and why."""
PARTS = {
    "Jittered": "variant",
    "SignBalanced": "variant",
    "Magnified": "variant",
    "Diminished": "variant",
    "KernelPoison": "variant",
    "LoneInLayer": "layers",
    "InLayer": "layers",
}
"""Attacks about others, and the number of a point that puts them in."""
ASIDE = {
    "Overwritten": "a value that is not finite is refused, and recorded, before any defence sees it",
    "NormBounded": "Scaled, for a bound that is known",
    "CerP": "its trigger is the adversary's data, too: play it as a whole adversary, such as the suite's",
    "TunedTrigger": "it is what CerP trains with, and does nothing alone",
    "OfHonest": "somebody's own function, of which nothing can be varied",
}
"""Attacks that are no part of the space, and why."""
