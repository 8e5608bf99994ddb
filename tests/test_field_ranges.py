"""Numbers in the fields of public parts: what means nothing is refused in one line, when the part is made or by the scenario."""

from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from math import inf, nan
from typing import Any, get_args

import pytest

from cloister import Training, algorithms, attacks, models, rules, threats
from cloister.fl.field_types import wrong_types
from cloister.protocol.pairs.noise import Noise
from cloister.told_in_python import PARTS

OTHERS = {"callbacks", "threats"}
"""Modules whose parts are no fields of a scenario; of these a budget of an audit is looked at."""
GIVEN = {"Client", "Colluding", "Evaluation", "Examples", "HadamardRotation", "Insider", "Offered", "Omniscient", "Own",
         "Population", "SignedPermutation", "Situation", "Source"}  # fmt: skip
"""What a user's function is given, or gives: made by Cloister, or of tensors. An `Evaluation` has no number but in its parts."""
OF_NAME: dict[str, Any] = {
    "T": 3, "alpha": 0.1, "attack": attacks.ALIE(), "b": 1, "beta": 0.5, "bound": 1.0, "budget": 2.0, "c": 1.0, "client": 1,
    "clients": 4, "clip": 1.0, "column": 1, "count": 2, "data": attacks.LabelShuffle(), "delta": 1e-5, "detector": len,
    "deviation": (1.0,), "eps": 0.5, "eps1": 0.4, "eps2": 0.7, "epsilon": 1.0, "every": 2, "exponent": 1.0, "f": 1, "factor": 1.0,
    "function": len, "groups": 2, "height": 1, "hidden": (8,), "ids": (0, 1), "l2": 1.0, "layers": (10,), "make": len,
    "mean": (0.0,), "members": attacks.Pool(1), "model": models.Mlp(), "models": 2, "most": 4, "mu": 0.1, "multiplier": 1.0,
    "parts": attacks.Parts((attacks.Patch(),)), "penalty": algorithms.fpfc_l1(3, 0.1, 0.1).penalty,
    "poison": attacks.LabelShuffle(),
    "pose": len, "radius": 1.0, "rate": 0.1, "records": 20, "rho_0": 1.0, "rounds": 3, "rounds_before": 3, "row": 1,
    "rule": rules.GeometricMedian(), "s": 2, "share": 0.3, "sigma": 0.1, "sigma_test": 0.1, "spread": 0.1,
    "steps": (rules.NNM(1),), "target": 0, "tau": 1.0, "theta": 2.0, "threshold": 0.5,
    "thresholds": algorithms.ScaleFree(eps1=0.4, eps2=0.7), "trigger": attacks.Patch(), "turn": 2, "values": (1.0,), "victim": 1,
    "width": 1,
}  # fmt: skip
"""What fields without a default are given, by their names."""
OF_PART: dict[str, dict[str, Any]] = {
    "Budget": {"name": "mine", "seeds": 1, "victims": 1, "records": 1, "steps": 1, "shadows": 1, "clients": 1},
    "ArbitraryTarget": {"target": len},
    "CerP": {"trigger": attacks.TunedTrigger()},
    "Parts": {"parts": (attacks.Patch(),)},
    "PrivateCFL": {"noise": Noise(clip=1.0, multiplier=1.0, reference_multiplier=1.0, budget=2.0, delta=1e-5)},
    "Span": {"least": 1.0, "most": 2.0},
    "Training": {"epochs": 1, "batch": 10, "lr": 0.1},
}
SENT = {
    "ALIE.z", "Chameleon.scale", "CloakedCollusion.rho", "ConstrainAndScale.scale", "Faker.scale", "FlippedClasses.scale",
    "FlippedClasses.strength", "Fragmentation.scale", "Hider.scale", "IPM.eps", "LoneFaker.scale", "MinusGradient.strength",
    "NormBounded.factor", "OneWay.scale", "ProjectedDescent.scale", "Scaled.factor", "Together.scale", "TwoKinds.scale",
    "Unshared.scale", "VictimCapture.strength",
}  # fmt: skip
"""What somebody corrupt multiplies an upload by: it sends what it likes, against its own direction and without end, too."""
NEGATIVE = SENT | {
    "EMDCFL.eps",  # a tolerance on differences, by which even equal clients are told apart
    "Fragmentation.step",  # backwards
    "MixedRotation.angle", "Sinusoid.frequency", "Sinusoid.strength",
    "Patch.column", "Patch.row",  # from the end
    "Patch.value",  # of records that are normalised
    "PrivateCFL.seed",
    "Span.least", "Steps.least",
}  # fmt: skip
ENDLESS = SENT | {
    "Absolute.eps1", "Absolute.eps2", "CFLDefence.eps1", "CFLDefence.eps2",  # a test that always holds, or never
    "ScaleFree.eps1", "ScaleFree.eps2",
    "CRFL.rho_0", "CenteredClipping.tau", "Chameleon.bound", "Clip.c", "ConstrainAndScale.bound", "GradientAscent.radius",
    "LASA.norms", "LASA.signs", "Neurotoxin.bound", "NormBound.b", "NormBounded.bound", "ProjectedDescent.radius", "SignGuard.R",
}  # fmt: skip
"""Bounds that are none."""
ZERO = (NEGATIVE - {"MixedRotation.angle"}) | {
    "A3FL.column", "A3FL.initial", "A3FL.lambda0", "A3FL.row", "A3FL.share", "A3FL.target", "ARC.f", "Absolute.eps1",
    "Absolute.eps2", "AlternatingMinimisation.rho", "Backdoor.share", "Backdoor.target", "Blend.alpha", "Blend.seed",
    "Bulyan.f", "CAF.f", "CFL.gamma_max", "CFL.patience", "CFL.pause", "CFLDefence.eps2", "CFLDefence.gamma_max", "CRFL.rate",
    "CerP.closeness", "CerP.diversity", "Chameleon.target", "CloakedCollusion.a", "CloakedCollusion.k",
    "ConstrainAndScale.alpha", "ConstrainAndScale.bound", "CriticalLayers.share", "DistributedBackdoor.share",
    "DistributedBackdoor.target", "DnC.f", "EdgeCase.share", "EdgeCase.target", "Encrypted.corrupt", "FLAME.noise",
    "FLIC.warm_up", "FPFC.nu", "FangKrum.spread", "FeSEM.prox", "FedCE.delta", "FedClust.threshold", "FedProx.mu", "FedSaC.l1",
    "FedSaC.l2", "FedSaC.mu", "FedSaC.snap", "FedSaC.until", "FedSoft.pull", "FlexCFL.eta_g", "FlippedClasses.share",
    "ForgedEmbeddings.spread", "GaussianNoise.s", "GradientAscent.radius", "HardenedFLIC.reluctance", "Hider.quantile",
    "Jittered.spread", "Krum.f", "KrumOfShare.share", "LASA.sparsity", "LogNormal.sigma", "MDA.f", "Masked.corrupt",
    "Masked.dropped", "Masked.slot_spare", "Meamed.f", "MeanAroundMedian.f", "Mimic.whom", "MultiKrum.f", "NNM.f",
    "Neurotoxin.bound", "Neurotoxin.ratio", "NormBound.s", "NormBounded.bound", "OfGram.f", "OneWay.cosine", "OneWay.share",
    "PACFL.beta", "PFedGraph.mu", "PFedGraph.snap", "PairNoise.rate", "PerRound.count", "Phocas.f", "Pixels.column",
    "Pixels.row", "Pool.count", "PowerLaw.exponent", "ProjectedDescent.radius", "RandomVector.s", "RobustLearningRate.theta",
    "SMEA.f", "SameAs.client", "ScaleFree.eps1", "ScaleFree.eps2", "Schedule.start", "Schedule.stop", "Share.share",
    "SignGuard.L", "SoftmaxGroups.noise", "SoftmaxRegression.deviation", "Steps.neighbours", "Steps.probes",
    "SwappedLabels.source", "SymmetricNoise.rate", "Together.cosine", "Together.share", "Training.momentum", "Training.prox",
    "Training.prox_rounds",
    "Training.weight_decay", "TrimmedMean.b", "TwoKinds.cosine", "TwoServer.corrupt", "Unshared.cosine", "VictimCapture.cosine",
    "VictimCapture.turn", "VictimCapture.victim",
}  # fmt: skip
"""None of something: no noise, no faulty ones, no wait; the first label, client, round or row."""


def public() -> dict[str, type]:
    found: dict[str, type] = {"Budget": threats.Budget, "Training": Training}
    for module in (import_module(f"cloister.{name}") for name in PARTS if name not in OTHERS):
        for name in module.__all__:
            part = getattr(module, name)
            if name not in GIVEN and isinstance(part, type) and is_dataclass(part):
                found[name] = part
    return found


def numbers(part: type) -> dict[str, list[Any]]:
    """Fields of numbers, and of each what it may be."""
    kinds = {field.name: [field.type, *get_args(field.type)] for field in fields(part)}
    return {name: of for name, of in kinds.items() if int in of or float in of}


def usual(name: str, part: type) -> dict[str, Any]:
    of = OF_PART.get(name, {})
    needed = [f.name for f in fields(part) if f.default is MISSING and f.default_factory is MISSING]
    return {**{field: OF_NAME[field] for field in needed if field not in of}, **of}


def refused(part: type, given: dict[str, Any]) -> str:
    """In which words, by the part itself or by the scenario that it is in; empty of what is taken."""
    try:
        made = part(**given)
    except ValueError as error:
        return str(error)
    except (TypeError, AttributeError) as error:  # which commands and notebooks say in these words
        (note,) = error.__notes__
        return note
    return next(wrong_types(made, part.__name__), "")


@pytest.mark.parametrize("name", public())
def test_a_number_that_means_nothing_is_refused_in_one_line(name: str) -> None:
    part = public()[name]
    given = usual(name, part)
    assert not refused(part, given)
    for field, kinds in numbers(part).items():
        wrong: list[Any] = [nan] if str in kinds else [nan, "2"]
        wrong += [] if f"{name}.{field}" in NEGATIVE else [-3]
        wrong += [] if f"{name}.{field}" in ENDLESS else [inf]
        wrong += [] if f"{name}.{field}" in ZERO else [0]
        wrong += [] if float in kinds else [2.5]
        for value in wrong:
            words = refused(part, {**given, field: value})
            assert words, f"{name}({field}={value!r}) is taken"
            assert "\n" not in words


def test_what_is_legitimate_is_taken() -> None:
    every = public()
    for value, legitimate in ((-3, NEGATIVE), (inf, ENDLESS), (0, ZERO)):
        for name, field in (one.split(".") for one in legitimate):
            assert not refused(every[name], {**usual(name, every[name]), field: value}), f"{name}.{field}"
