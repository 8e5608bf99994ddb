"""The forms of attacks that a search begins with: as they are by default, and with one choice otherwise."""

from ..label_attacks import SwappedLabels
from ..membership import Pool
from .fields import STRONGEST, WEAKEST, Number, Numbers
from .found import strengths_of
from .space import HONEST, TOGETHER, TRAINED, UPLOADED, Space, usual
from .who import HOLDERS, WHICH


def defaults(space: Space) -> list[Numbers]:
    """Every attack as it is by default."""
    return [usual(space, {"attack": name}, Pool(1))[0] for name in space.attacks if name != HONEST]


def named_forms(space: Space) -> list[Numbers]:
    """Every attack as it is by default, and each vote with honest work."""
    return [*defaults(space), *_votes(space)]


def _votes(space: Space) -> list[Numbers]:
    alone = space.votes if HONEST in space.attacks else []
    return [form for v in alone if (form := _form(space, HONEST, "votes", v))]


def usual_forms(space: Space) -> list[Numbers]:
    """Every attack as it is by default; two labels swapped by who holds most of them, where clients differ; the first one with
    each other schedule, late ones among them, layers, votes, samples and members; votes with honest work; then each upload ten
    times weaker and stronger, what trains in its own way, and the other choices of each attack.
    """
    attacks, poisons = [name for name in space.attacks if name != HONEST], {k.__name__ for k in space.poisons}
    plain, of_first, held, own, strengths = defaults(space), [], [], [], []
    for name in attacks:
        numbers, options = usual(space, {"attack": name}, Pool(1))
        uploads = name in space.of(UPLOADED, TOGETHER)
        strength, (least, most) = next(iter(strengths_of(space, numbers).items()), ("", (WEAKEST, STRONGEST)))
        if uploads and strength.startswith(f"{name}.") and strength not in space.fixed:
            around = (float(numbers[strength]) * factor for factor in (0.1, 10.0))
            strengths += [form for v in around if least <= v <= most if (form := _form(space, name, strength, v))]
        others = [(o, v) for o, of in options.items() if o != "attack" for v in of[1:] if v == "Backdoor" or v not in poisons]
        if name == attacks[0]:
            of_first = [form for o, v in others if "." not in o if (form := _form(space, name, o, v))] + _late(space, name)
        own += [form for o, v in others if "." in o or v == "Backdoor" if (form := _form(space, name, o, v))]
        if name == SwappedLabels.__name__ and HOLDERS in options.get(WHICH, ()):
            held += [form] if (form := _form(space, name, WHICH, HOLDERS)) else []
    trained = set(space.of(TRAINED))  # by their own loop, which is slow
    quick, slow = ([n for n in plain if (n["attack"] in trained) == is_slow] for is_slow in (False, True))
    first, last = [*quick[:1], *held, *of_first, *_votes(space)], [*strengths, *slow, *own]
    unique = {repr(sorted(n.items())): n for n in [*first, *quick[1:], *last]}
    return list(unique.values())


def _late(space: Space, attack: str) -> list[Numbers]:
    """The attack in the last fifth of the rounds, and in the last tenth: a defence that watches for long trusts afterwards."""
    rounds = space.scenario.rounds
    starts = sorted({start for share in (5, 10) if 0 < (start := rounds - max(1, rounds // share)) < rounds})
    if "schedule" in space.fixed:
        return []
    return [usual(space, {"attack": attack, "schedule": "from", "schedule.start": start}, Pool(1))[0] for start in starts]


def _form(space: Space, attack: str, name: str, value: Number) -> Numbers | None:
    """The attack as it is by default but for one choice; None where that does not go together."""
    try:
        return usual(space, {"attack": attack, name: value}, Pool(1))[0]
    except ValueError:
        return None
