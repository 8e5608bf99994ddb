"""Attacks on accuracy."""

from typing import Any

from ...fl.robust.mixing import Prepared
from ...fl.runs.scenario import Scenario
from ..adversary import Adversary
from ..cluster_attacks import CloakedCollusion
from ..collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum
from ..evaluation_attack import Attack, Informed, by_members, insiders_rule
from ..knowledge import Level
from ..label_attacks import DynamicLabelFlip, LabelFlip
from ..line_search import LineSearched, optimal_alie, optimal_ipm
from ..membership import Pool
from ..simple_attacks import MinusGradient, Overwritten, RandomVector
from ..tailored import Tailored, dyn_opt, stat_opt
from ..targeted_uploads import Mimic

PERTURBATIONS = ("deviation", "sign", "mean")


def untargeted() -> dict[str, Attack]:
    """Without a look at the rule.

    Minus gradient (as FLIC's attackers do, Espinoza Castellon et al. 2022), also weaker and stronger: weak uploads pass rules
    of norms. ALIE (Baruch et al. 2019) at the paper's z and beyond, and turned round. IPM (Xie et al. 2020) from .1, against
    Krum, to above (n - f) / f, against the mean, and to 20, against rules that trim: beyond all honest values. Min-Max and
    Min-Sum (Shejwalkar and Houmansadr 2021) with their three perturbations. Fang et al. 2020 against Krum, with honest updates
    seen and, as "partial", without (which goes farther, and harms means and rules of coordinates more), against trimmed means,
    and their label flips; dynamic ones (Shejwalkar et al. 2022). Mimic (Karimireddy et al. 2022). Colluders under a cloak of
    noise (`CloakedCollusion`). Noise alone, and NaN.
    """
    return {
        **{f"minus gradient{_times(s)}": MinusGradient(s) for s in (1.0, 0.2, 5.0)},
        "ALIE": ALIE(),
        **{f"ALIE z={z:g}": ALIE(z) for z in (0.5, 1.0, 1.5, 3.0, -1.5)},
        **{f"IPM eps={eps:g}": IPM(eps) for eps in (0.1, 0.5, 1.0, 2.0, 10.0, 20.0)},
        **{f"Min-Max {p}": MinMax(p) for p in PERTURBATIONS},  # type: ignore[arg-type]
        **{f"Min-Sum {p}": MinSum(p) for p in PERTURBATIONS},  # type: ignore[arg-type]
        "Fang Krum": FangKrum(),
        "Fang Krum partial": lambda count: Adversary(members=Pool(count), knows=Level.COLLUDING, upload=FangKrum()),
        "Fang trim": FangTrim(),
        "mimic": Mimic(),
        "cloaked x10": CloakedCollusion(rho=10),
        "label flip": LabelFlip(),
        "dynamic label flip": DynamicLabelFlip(),
        "random vector": RandomVector(),
        "NaN": Overwritten(),
    }


def insiders() -> dict[str, Attack]:
    """Searched against the rule of the defence under attack, which members know; the mean where it has none.

    Optimal ALIE and IPM: line searches for the point that moves the rule farthest (ByzFL). STAT-OPT and DYN-OPT: as far as the
    rule accepts (Fang et al. 2020, Shejwalkar and Houmansadr 2021; named in Shejwalkar et al. 2022). A rule that accepts or
    refuses nobody, as one of coordinates, has the line search along the same direction in their place.
    """
    return {
        "optimal ALIE": optimal_alie(),
        "optimal IPM": optimal_ipm(),
        "STAT-OPT": Informed(lambda count, scenario: _tailored(stat_opt(), count, scenario)),
        "DYN-OPT": Informed(lambda count, scenario: _tailored(dyn_opt(), count, scenario)),
    }


def _tailored(attack: Tailored, count: float, scenario: Scenario) -> Adversary:
    last: Any = insiders_rule(scenario)
    while isinstance(last, Prepared):
        last = last.rule
    chosen = (
        attack
        if hasattr(last, "weights") and not hasattr(last, "combine")
        else LineSearched(attack.perturbation, most=attack.most)
    )
    return by_members("upload", chosen, count, scenario)


def _times(strength: float) -> str:
    return "" if strength == 1 else f" x{strength:g}"
