"""The table of attacks in the package's docstring: nothing is missing from it, and all that it names can be had."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from types import ModuleType
from typing import Any

import pytest

import cloister.threat_models as package
from cloister.fl.robust.averages import Mean
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.collusion import ALIE
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.targeted_uploads import back_to_zero
from cloister.threat_models.triggers import Patch, dba_bars

MODULES: dict[str, ModuleType] = {
    info.name: importlib.import_module(f"cloister.threat_models.{info.name}") for info in pkgutil.iter_modules(package.__path__)
}
NO_ATTACKS = {"Copied", "Disguised", "Undisguised", "Posed", "GreenDigits", "CornerPatches", "Watched", "Nobody"} | {
    "Applied", "UploadFunction", "DataFunction", "TrainingFunction", "ChoiceFunction",
}  # fmt: skip
"""Callable values that are parts of attacks, partitions with planted features, or what watches a run."""
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "IPM": (0.1,),
    "SymmetricNoise": (0.3,),
    "PairNoise": (0.3,),
    "GaussianNoise": (0.1,),
    "Scaled": (10.0,),
    "NormBounded": (10.0, 1.0),
    "ProjectedDescent": (1.0,),
    "VictimCapture": (None, 5),
    "Tilted": (0.5,),
    "KernelPoison": (MinusGradient(),),
    "AlternatingMinimisation": (LabelFlip(),),
    "CriticalLayers": (LabelFlip(),),
    "Pretended": (LabelFlip(),),
    "Backdoor": (Patch(),),
    "DistributedBackdoor": (dba_bars(),),
    "SameAs": (1,),
    "ArbitraryTarget": (back_to_zero,),
    "Jittered": (ALIE(), 0.1),
    "SignBalanced": (ALIE(),),
    "OfHonest": (len,),
    "Magnified": (MinusGradient(),),
    "Diminished": (MinusGradient(),),
    "LoneInLayer": (MinusGradient(),),
    "InLayer": (ALIE(),),
    "CerP": (Backdoor(Patch()),),
}
ROWS = [row.strip("| ").split(" | ") for row in (package.__doc__ or "").splitlines() if row.startswith("| ")][2:]


def attacks() -> dict[str, type[Any]]:
    """Every public dataclass that is called, by name."""
    found: dict[str, type[Any]] = {}
    for module in MODULES.values():
        for name, value in vars(module).items():
            ours = inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
            if (
                ours
                and dataclasses.is_dataclass(value)
                and any("__call__" in vars(kind) for kind in value.__mro__)
                and name not in NO_ATTACKS
            ):
                found[name] = value
    return found


def test_every_attack_is_in_the_table() -> None:
    listed = set(re.findall(r"\w+", " ".join(row[1] for row in ROWS)))
    assert len(attacks()) > 40
    assert sorted(attacks().keys() - listed) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_the_table_names_what_is_there(row: list[str]) -> None:
    """A module holds what its row names, and the level that the row says is the least."""
    places, named, modules = row
    holders = [MODULES[name] for name in modules.split(", ")]
    level = Level.OWN
    for word in re.findall(r"\w+", re.sub(r"\(K(\d)\)", r"", named)):
        if re.fullmatch(r"K\d", word):
            level = Level(int(word[1]))
        elif word in attacks():
            assert any(hasattr(holder, word) for holder in holders), word
            needs = getattr(attacks()[word], "needs", None)
            assert not isinstance(needs, Level) or needs == level, word
        elif re.fullmatch(r"[a-z]+_\w+", word):
            assert any(callable(getattr(holder, word, None)) for holder in holders), word
    fields = {field.name for field in dataclasses.fields(Adversary)}
    assert set(places.split(", ")) <= fields


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(attacks()))
def test_an_attack_that_is_named_can_be_part_of_an_adversary(name: str) -> None:
    """None is documented and out of reach."""
    (place,) = {row[0].split(", ")[0] for row in ROWS if re.search(rf"\b{name}\b", row[1])}
    attack = attacks()[name](*ARGUMENTS.get(name, ()))
    fields: dict[str, Any] = {place: attack}
    built = Adversary(members=Fixed((0,)), knows=Level.INSIDER, rule=Mean(), **fields)
    assert getattr(built, place) is attack
