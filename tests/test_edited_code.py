"""Results of code that was edited since are not taken for its own: rules and attacks as classes, and what they use."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cloister import algorithms, attacks, cli, rules
from cloister.attacking.data import read_search
from cloister.fl.own import is_own
from cloister.fl.own_code import digest_of
from cloister.fl.runs.scenario import described
from cloister.scenario_file import load_poisoning

from . import evaluation_sample as sample

ROOT = Path(__file__).parent.parent
RULE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cloister import rules

SCALE = 1.0
PLAYED = 0


def even(n):
    return np.full(n, helper() / n)


def helper():
    return SCALE


class Base:
    def twice(self, n):
        return self.weights(n, None)


@dataclass(frozen=True, slots=True)
class Mine(Base):
    f: int = 0
    sees: ClassVar = rules.Sight.GRAM
    shift_invariant: ClassVar = False

    def weights(self, gram, rng, /):
        global PLAYED
        PLAYED += 1
        return even(len(gram))


def of_updates(updates):
    return even(len(updates)) @ updates
"""
EDITS = {
    "its method": ("return even(len(gram))", "return 2 * even(len(gram))"),
    "a function that it calls": ("np.full(n, helper() / n)", "np.full(n, helper() / (n + 1))"),
    "a function that this calls": ("return SCALE", "return -SCALE"),
    "a constant": ("SCALE = 1.0", "SCALE = 2.0"),
    "a method of its base": ("return self.weights(n, None)", "return None"),
    "its own constant": ("shift_invariant: ClassVar = False", "shift_invariant: ClassVar = True"),
}


def written(path: Path, text: str, name: str = "Mine") -> Any:
    path.write_text(text)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # two edits of one second have one time stamp
    try:
        return load_poisoning(f"{path}:{name}")
    finally:
        sys.dont_write_bytecode = before


@pytest.mark.parametrize("edit", EDITS)
def test_a_class_that_was_edited_is_another_one_and_the_same_one_is_the_same(edit: str, tmp_path: Path) -> None:
    old, new = EDITS[edit]
    assert old in RULE
    one, same, edited = (written(tmp_path / f"{k}.py", text) for k, text in enumerate((RULE, RULE, RULE.replace(old, new))))
    of = [described(algorithms.RobustFedAvg(rule=rule(f=1))) for rule in (one, same, edited)]
    assert of[0] == of[1] != of[2]
    assert json.loads(json.dumps(of[0])) == of[0]
    used = edit not in ("its method", "its own constant", "a method of its base")
    of = [digest_of(written(tmp_path / f"f{k}.py", text, "of_updates")) for k, text in enumerate((RULE, RULE.replace(old, new)))]
    assert (of[0] != of[1]) == used


def test_what_a_run_changes_is_no_part_of_it(tmp_path: Path) -> None:
    rule = written(tmp_path / "one.py", RULE)(f=1)
    before = described(rule)
    rule.weights([1, 2], None)
    assert described(rule) == before


TABLES = """
from dataclasses import dataclass

import numpy as np
import torch

DICT = {"k": [-0.3, (1, "a")]}
LIST = [-0.3]
SET = {1, 2}
ARRAY = np.array([-0.3], dtype=np.float32)
TENSOR = torch.tensor([-0.3])
NUMBER = np.float32(-0.3)


@dataclass(frozen=True)
class Settings:
    k: float = 1.0


FROZEN = Settings(k=-0.3)


def of_updates(own):
    return READ * own.update


class Fixed:
    @property
    def table(self):
        return READ
"""
READ = {
    "DICT": ("[-0.3, (1", "[-5.0, (1"),
    "LIST": ("LIST = [-0.3]", "LIST = [-5.0]"),
    "SET": ("SET = {1, 2}", "SET = {1, 3}"),
    "ARRAY": ("array([-0.3]", "array([-5.0]"),
    "TENSOR": ("tensor([-0.3]", "tensor([-5.0]"),
    "NUMBER": ("float32(-0.3)", "float32(-5.0)"),
    "FROZEN": ("Settings(k=-0.3)", "Settings(k=-5.0)"),
}


@pytest.mark.parametrize("name", ["of_updates", "Fixed"])
@pytest.mark.parametrize("read", READ)
def test_a_table_that_a_function_reads_and_nobody_changes_is_part_of_it(read: str, name: str, tmp_path: Path) -> None:
    """Before: results of the old table were shown for the new one, after `--resume`."""
    old, new = READ[read]
    text = TABLES.replace("READ", read)
    one, same, edited = (written(tmp_path / f"{k}.py", of, name) for k, of in enumerate((text, text, text.replace(old, new))))
    assert digest_of(one) == digest_of(same) != digest_of(edited)


CHANGED = {
    "a part": "    DICT['seen'] = 1",
    "a method": "    LIST.append(1)",
    "in a function inside": "    def inner():\n        LIST.pop()\n    inner()",
    "a slice": "    ARRAY[:] = 0",
    "in its place": "    ARRAY[0] += 1",
    "for good": "    global LIST\n    LIST = [1]",
    "gone": "    del DICT['k']",
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_table_that_a_function_changes_is_the_state_of_a_run(how: str, tmp_path: Path) -> None:
    name = next(one for one in ("DICT", "LIST", "ARRAY") if one in CHANGED[how])
    text = TABLES.replace("READ", name) + f"\n\ndef later():\n{CHANGED[how]}\n"
    function = written(tmp_path / "one.py", text, "of_updates")
    before = digest_of(function)
    function.__globals__["later"]()
    assert digest_of(function) == before


MADE = """
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch


class Plain:
    def __init__(self, scale, table=(), inner=None):
        self.scale, self.table, self.inner, self.rng, self.calls = scale, np.array(table), inner, np.random.default_rng(), 0
        self.seen = []

    def __call__(self, known):
        self.calls += 1
        self.seen.append(known)
        return self.scale * known




class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale

    def upload(self, known):
        return self.scale * known

    __call__ = upload


def closure(scale):
    calls, seen = 0, []

    def attack(known):
        nonlocal calls
        calls += 1
        seen.append(known)
        return scale * known

    return attack


def along(direction):
    return lambda known: direction[0] * known


def given(known, scale=1.0, sign=1):
    return sign * scale * known


def made(scale):
    return {
        "an object": Plain(scale),
        "its table": Plain(1.0, [scale]),
        "an object in it": Plain(1.0, inner=Plain(scale)),
        "a function in it": Plain(1.0, inner=closure(scale)),
        "slots": Slotted(scale),
        "a method": Slotted(scale).upload,
        "what is closed over": closure(scale),
        "an array that is": along(np.array([scale])),
        "an object that is": (lambda inner: lambda known: inner(known))(Slotted(scale).upload),
        "a partial function": partial(given, scale=scale),
        "partial by position": partial(given, 0.0, scale),
        "partial of another": partial(partial(given, sign=scale), scale=2.0),
    }


"""
NAMES = ["an object", "its table", "an object in it", "a function in it", "slots", "a method", "what is closed over",
         "an array that is", "an object that is", "a partial function", "partial by position", "partial of another"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_an_object_or_a_function_was_made_of_tells_it_from_another(name: str, tmp_path: Path) -> None:
    """Before: after `--resume` the figures of `Hug(1.5)` were shown as those of `Hug(8.0)`."""
    made = written(tmp_path / "one.py", MADE, "made")
    one, same, other = (described(made(scale)[name]) for scale in (1.5, 1.5, 8.0))
    assert one == same != other
    assert json.loads(json.dumps(one)) == one
    assert described(algorithms.RobustFedAvg(rule=made(1.5)[name])) != described(algorithms.RobustFedAvg(rule=made(8.0)[name]))
    assert set(made(1.0)) == set(NAMES)


OBJECT = "class C:\n    def __init__(self, {given}):\n        {makes}\n    def __call__(self, u):\n        {does}\n"
OF = {
    "a list beside another that is written to": OBJECT.format(
        given="w", makes="self.w = w", does="out = u.copy(); out[0] = self.w[0]; return out"
    )
    + "A = C([1.5])",
    "objects in a list": OBJECT.format(given="m", makes="self.m = m", does="return u * self.m")
    + "class D:\n    def __init__(self, *parts):\n        self.parts = list(parts)\n"
    "    def __call__(self, u):\n        return u\nA = D(C(1.5), C(2.0))",
    "functions in a table": "def f(u):\n    return 1.5 * u\nT = {'f': f}\ndef A(u):\n    return T['f'](u)",
    "a helper of its making": OBJECT.format(given="m", makes="self._set(m)", does="return u")
    + "    def _set(self, m):\n        self.m = m\nA = C(1.5)",
    "a property that is set": OBJECT.format(given="m", makes="self.m = m", does="return u")
    + "    @property\n    def m(self):\n        return self._m\n    @m.setter\n    def m(self, m):\n"
    "        self._m = m\nA = C(1.5)",
    "what it is updated with": OBJECT.format(given="**of", makes="self.__dict__.update(of)", does="return u") + "A = C(m=1.5)",
    "an attribute called type": OBJECT.format(given="type", makes="self.type = type", does="return 1.5 * u") + "A = C('x')",
    "an array in a dataclass": "import numpy as np\nfrom dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n"
    "    w: np.ndarray\n    def __call__(self, u):\n        return u\nA = C(np.array([1.5, 2.0]))",
    "a tensor of a partial function": "import torch\nfrom functools import partial\ndef f(u, w):\n    return u\n"
    "A = partial(f, w=torch.tensor([1.5]))",
    "a list by default": "def A(u, w=[1.5, 2]):\n    return u * w[0]",
    "a decorator of one's own": "import functools\ndef times(k):\n    def deco(f):\n        @functools.wraps(f)\n"
    "        def w(u):\n            return k * f(u)\n        return w\n    return deco\n@times(1.5)\ndef h(u):\n    return u\n"
    "def A(u):\n    return h(u)",
    "a cached property": "from functools import cached_property\nclass C:\n    @cached_property\n    def k(self):\n"
    "        return 1.5\n    def __call__(self, u):\n        return u * self.k\nA = C()",
    "a constant of a class that objects may have of their own": "class C:\n    k = 1.5\n    def __init__(self, k=None):\n"
    "        if k is not None:\n            self.k = k\n"
    "    def __call__(self, u):\n        return u * self.k\nA = C()",
    "a class method's class": "class C:\n    k = 1.5\n    @classmethod\n    def go(cls, u):\n        return cls.k * u\nA = C.go",
    "another constructor": "class C:\n    @classmethod\n    def of(cls, k):\n        c = cls()\n"
    "        c.k = k\n        return c\n    def __call__(self, u):\n        return u\n"
    "A = C.of(1.5)",
    "a module's buffer": "import torch\nfrom torch import nn\nclass M(nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n"
    "        self.register_buffer('k', torch.tensor([1.5]), persistent=False)\nA = M()",
    "a Fraction": OBJECT.format(given="m", makes="self.m = m", does="return u")
    + "from fractions import Fraction\nA = C(Fraction(1.5))",
}


@pytest.mark.parametrize("case", OF)
def test_whatever_it_is_made_of_in_whatever_way_tells_it_from_another(case: str, tmp_path: Path) -> None:
    texts = (OF[case], OF[case], OF[case].replace("1.5", "8.0"))
    one, same, other = (described(written(tmp_path / f"{k}.py", text, "A")) for k, text in enumerate(texts))
    assert json.dumps(one) == json.dumps(same) != json.dumps(other)


@pytest.mark.long
def test_a_set_is_described_alike_in_every_process() -> None:
    code = (
        "import json\nfrom dataclasses import dataclass\nfrom cloister.fl.runs.scenario import described\n"
        "@dataclass(frozen=True)\nclass C:\n    names: frozenset\n"
        "print(json.dumps(described(C(frozenset({'fc1', 'fc2', 'bn', 'conv'})))))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": str(k)}
        ).stdout
        for k in range(3)
    }
    assert len(said) == 1


class Odd:
    """It raises at whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def test_an_odd_object_beside_a_function_does_not_hide_its_code(tmp_path: Path) -> None:
    text = "class Odd:\n    def __getattr__(self, name):\n        raise KeyError(name)\nODD = Odd()\nW = [1.5]\n"
    text += "def A(u):\n    return u * W[0] if ODD else u\n"
    one, same, other = (
        described(written(tmp_path / f"{k}.py", of, "A")) for k, of in enumerate((text, text, text.replace("1.5", "8.0")))
    )
    assert one == same != other


@pytest.mark.long
def test_nothing_of_a_users_own_ends_its_description() -> None:
    class Held:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    cyclic: list[Any] = []
    cyclic.append(Held(cyclic))
    deep: Any = ()
    for _ in range(3000):
        deep = (deep,)
    many: Any = 1.0
    for _ in range(40):  # 2**40 of them, if each were written out
        many = Held([many, many])
    odd = torch.zeros(3, device="meta")
    for value in (Odd(), Held(Odd()), cyclic, Held(deep), many, Held(odd), [0.5] * 10**6, "x" * 10**7):
        assert len(json.dumps(described(value))) < 5_000_000


def test_an_object_at_the_top_of_a_file_is_part_of_the_function_that_uses_it(tmp_path: Path) -> None:
    text = MADE + "\n\nKEPT = Plain(1.5)\n\n\ndef by_name(known):\n    return KEPT(known)\n"
    texts = (text, text, text.replace("Plain(1.5)", "Plain(8.0)"))
    one, same, other = (digest_of(written(tmp_path / f"{k}.py", of, "by_name")) for k, of in enumerate(texts))
    assert one == same != other


@pytest.mark.parametrize("name", ["an object", "what is closed over"])
def test_what_an_object_or_a_function_counts_while_it_runs_is_no_part_of_it(name: str, tmp_path: Path) -> None:
    attack = written(tmp_path / "one.py", MADE, "made")(1.5)[name]
    before = described(attack)
    attack(2.0)
    assert described(attack) == before


def test_what_is_closed_over_and_changed_by_who_made_it_is_no_part_of_it() -> None:
    now = {"round": 0}

    def attack(known: float) -> float:
        return now["round"] * known

    before = described(attack)
    now["round"] = 3
    assert described(attack) == before


def test_what_a_library_keeps_in_an_object_is_no_part_of_it(tmp_path: Path) -> None:
    text = "from torch import nn\n\n\nclass Mine(nn.Module):\n    def __init__(self, wide):\n        super().__init__()\n"
    text += "        self.wide = wide\n\n\nKEPT = Mine(3)\n\n\ndef by_name(known):\n    return KEPT.wide * known\n"
    function = written(tmp_path / "one.py", text, "by_name")
    before = digest_of(function)
    function.__globals__["KEPT"].eval()
    assert digest_of(function) == before
    assert digest_of(written(tmp_path / "two.py", text.replace("Mine(3)", "Mine(4)"), "by_name")) != before


def test_objects_that_hold_one_another_are_described(tmp_path: Path) -> None:
    attack = written(tmp_path / "one.py", MADE, "made")(1.5)["an object"]
    attack.inner = attack
    assert "scale" in json.dumps(described(attack))


def test_parts_of_cloister_and_of_libraries_have_no_digest() -> None:
    assert described(rules.Median()) == {"type": "Median"}
    assert "code" not in json.dumps(described(sample.scenario))
    assert not any(map(is_own, (rules.Median, json, Path, int, pytest, cli.main)))
    assert all(map(is_own, (sample, written)))


def test_functions_that_call_each_other_end(tmp_path: Path) -> None:
    text = "def one(own):\n    return two(own)\n\n\ndef two(own):\n    return one(own)\n"
    assert digest_of(written(tmp_path / "one.py", text, "one")) != digest_of(written(tmp_path / "two.py", text, "two"))


ATTACK = """
from dataclasses import dataclass
from typing import ClassVar

from cloister import attacks


@dataclass(frozen=True, slots=True)
class Mine:
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own, /):
        return turned(own.update)


def turned(update):
    raise KeyError("oops")
"""


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., int]:
    def played(text: str, *words: str) -> int:
        (tmp_path / "mine.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        argv = ["cloister", "attack", f"{ROOT}/tests/evaluation_sample.py:scenario", "--attack", "mine.py:Mine", "--budget", "8"]
        monkeypatch.setattr(sys, "argv", [*argv, "--attackers", "2", "--workers", "1", "--out", "here", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        capsys.readouterr()
        return int(caught.value.code or 0)

    return played


@pytest.mark.long
@pytest.mark.trains
def test_an_attack_that_failed_and_was_mended_is_searched_anew(tmp_path: Path, search: Callable[..., int]) -> None:
    pytest.importorskip("optuna")
    assert search(ATTACK) == 3
    failed = read_search(tmp_path / "here")
    assert failed.erred
    assert not failed.played
    assert search(ATTACK.replace('raise KeyError("oops")', "return -update"), "--resume") == 0
    mended = read_search(tmp_path / "here")
    assert mended.played
    assert mended.foreign
    assert not mended.failed
    assert len(mended.rows) <= 8


def test_the_attacks_that_come_along_have_no_digest() -> None:
    assert all("code" not in json.dumps(described(attack)) for attack in attacks.strongest().values())


def test_a_large_array_is_read_in_part_and_its_size_whole(tmp_path: Path) -> None:
    """Data at the top of a file are read by a loader, and have a checksum of their own."""
    text = TABLES.replace("READ", "ARRAY").replace("np.array([-0.3], dtype=np.float32)", "np.zeros(SIZE, np.float32)")
    one, same, longer = (
        written(tmp_path / f"{k}.py", text.replace("SIZE", str(size)), "of_updates")
        for k, size in enumerate((2**22, 2**22, 2**22 + 1))
    )
    assert digest_of(one) == digest_of(same) != digest_of(longer)
