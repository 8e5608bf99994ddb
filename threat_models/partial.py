"""Attacks on a part of the model: what another attack sends in one layer, honest work in all others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..protocol.view.answers import Vector
from .attack import CollusiveAttack, LoneAttack, looks_back
from .critical_layers import layers_of
from .functions import alone, together
from .knowledge import Colluding, Level, Own
from .variants import learned

Layer = Literal["first", "last"]


def in_layer(own: Own, sent: Vector, layer: Layer) -> Vector:
    """The own update with one layer, its weights and biases, of what is sent: float32 (d,)."""
    places = list(layers_of(own.module).values())
    at = places[0] if layer == "first" else places[-1]
    update = own.update.copy()
    update[at] = sent[at]
    return update


@dataclass(frozen=True, slots=True)
class LoneInLayer:
    """A member's attack in one layer, the rest of its upload being its own update."""

    attack: LoneAttack
    layer: Layer = "last"
    needs: ClassVar[Level] = Level.OWN

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    def __call__(self, own: Own, /) -> Vector:
        return in_layer(own, alone(self.attack, own, self.attack(own)), self.layer)


@dataclass(frozen=True, slots=True)
class InLayer:
    """A collusive attack in one layer, the rest of each upload being the member's own update: no two are alike."""

    attack: CollusiveAttack
    layer: Layer = "last"
    identical: ClassVar[bool] = False

    @property
    def needs(self) -> Level:
        return self.attack.needs

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        return learned(self.attack, coalition)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        return {
            i: in_layer(coalition.own[i], vector, self.layer)
            for i, vector in together(self.attack, coalition, self.attack(coalition)).items()
        }
