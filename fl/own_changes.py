"""What a function's code may change in place, by the names it has: read off its bytecode, as its source need not be there.

The instructions are followed once, in their order, with a stack that holds for each value the names that it came by: of
`self.w[0]` self and w. What is assigned to a part of, or has a method called that changes things, is changed by these names; so
is what a local name stands for. Where the stack cannot be followed, every name may be changed. What is handed on to another
function is trusted, but for some of numpy's and Python's that change what they are handed.
"""

import dis
import inspect
from functools import lru_cache
from types import CodeType

CHANGING = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "appendleft", "popleft",
     "update", "setdefault", "add", "discard", "popitem", "__setitem__", "symmetric_difference_update",
     "difference_update", "intersection_update", "fill", "put", "resize", "shuffle", "itemset", "partition")
)  # fmt: skip
"""Names of methods that change what they are called on; so do those of torch, which end with one underscore."""
CHANGE_GIVEN = frozenset(
    ("copyto", "put", "place", "fill_diagonal", "shuffle", "heappush", "heappop", "heapify", "setattr", "next")
)
"""Functions that change what they are handed."""
VIEWS = frozenset(("reshape", "view", "ravel", "squeeze", "transpose", "detach", "numpy", "get", "values", "items", "flatten"))
"""Methods whose result may be a part of what they are called on."""
LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR")
STORES = ("STORE_FAST", "STORE_NAME", "STORE_DEREF")
PARTS = ("BINARY_SUBSCR", "BINARY_SLICE")
CHANGES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
LEAVES = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", *JUMPS)
NONE: frozenset[str] = frozenset()
DEEP = 16
"""Values on the stack where an error is caught, of which no name is known."""
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
METHOD = "."
"""Marks, in the names of a function on the stack, that it is a method of what has the others."""


@lru_cache(maxsize=4096)
def changed_by(code: CodeType) -> frozenset[str] | None:
    """Names of what the code may change in place; None where that cannot be told, and may be anything."""
    try:
        return _Followed(code).changed
    except (IndexError, ValueError):
        return None


class _Followed:
    """A code that is followed. Raises IndexError where there is less on the stack than an instruction takes."""

    def __init__(self, code: CodeType) -> None:
        self.code, self.stack = code, [NONE] if code.co_flags & GENERATORS else list[frozenset[str]]()
        self.alias: dict[str, frozenset[str]] = {}
        self.named: tuple[str, ...] = ()
        changed: set[str] = set()
        at: dict[int, list[frozenset[str]]] = {}
        gone = False
        for one in dis.get_instructions(code):
            if (come := at.get(one.offset)) is not None:
                both = come if gone or len(come) != len(self.stack) else [a | b for a, b in zip(come, self.stack, strict=True)]
                self.stack = list(both)
            elif gone:
                self.stack = [NONE] * DEEP
            gone, before = one.opname in LEAVES, list(self.stack)
            changed |= self._step(one)
            if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
                left = len(before) + dis.stack_effect(one.opcode, one.arg, jump=True)
                at.setdefault(one.argval, [*before[:left], *[NONE] * (left - len(before))])
        more = [changed_by(inner) for inner in code.co_consts if isinstance(inner, CodeType)]
        if any(inner is None for inner in more):
            raise ValueError("a function inside cannot be followed")
        self.changed = frozenset(changed).union(*(inner for inner in more if inner is not None)) - {METHOD}

    def _take(self, count: int) -> list[frozenset[str]]:
        if count > len(self.stack):
            raise IndexError(count)
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def _step(self, one: dis.Instruction) -> frozenset[str]:
        """Names of what this instruction changes."""
        name, arg = one.opname, one.arg or 0
        if name in LOADS:
            if name == "LOAD_GLOBAL" and arg & 1:
                self.stack.append(NONE)
            self.stack.append(frozenset({str(one.argval)}) | self.alias.get(str(one.argval), NONE))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            (of,) = self._take(1)
            method = name == "LOAD_METHOD" or (dis.stack_effect(one.opcode, arg) == 1)
            called = of | {str(one.argval)}
            self.stack += [called | {METHOD}, of] if method else [called]
        elif name in STORES:
            (of,) = self._take(1)
            self.alias[str(one.argval)] = self.alias.get(str(one.argval), NONE) | of
        elif name in PARTS:
            self.stack.append(self._take(2 if name == "BINARY_SUBSCR" else 3)[0])
        elif name in CHANGES:
            taken = self._take({"STORE_SUBSCR": 3, "DELETE_SUBSCR": 2, "STORE_SLICE": 4}[name])
            return taken[0 if name == "DELETE_SUBSCR" else 1]
        elif name == "COPY":
            self.stack.append(self.stack[-arg])
        elif name == "SWAP":
            self.stack[-1], self.stack[-arg] = self.stack[-arg], self.stack[-1]
        elif name == "KW_NAMES":
            self.named = tuple(map(str, self.code.co_consts[arg]))
        elif name == "CALL":
            return self._call(arg)
        elif name == "UNPACK_SEQUENCE":
            self.stack += self._take(1) * arg
        elif name == "BINARY_OP":
            left, _ = self._take(2)
            inplace = one.argrepr.endswith("=")
            self.stack.append(left if inplace else NONE)
            return left if inplace else NONE
        elif name != "PRECALL":
            self._other(dis.stack_effect(one.opcode, one.arg, jump=False))
        return NONE

    def _call(self, arguments: int) -> frozenset[str]:
        *of, last = self._take(arguments + 2)  # the function, or nothing and the function, then what it is called on, or nothing
        *front, given = of[0], [*of[1:], last]
        method = front[0] if METHOD in front[0] else NONE
        words = method or (given[0] if not method else NONE)
        named, self.named = self.named, ()
        handed: frozenset[str] = NONE.union(*given)
        changing = any(word in CHANGING or (word.endswith("_") and not word.endswith("__")) for word in method)
        self.stack.append(handed if method & VIEWS else NONE)
        if changing:
            return method | given[0]
        return handed if "out" in named or words & CHANGE_GIVEN else NONE

    def _other(self, effect: int) -> None:
        """Any other instruction: what it takes off may be in what it leaves."""
        if effect < 0:
            taken = self._take(-effect)
            if self.stack:
                self.stack[-1] = self.stack[-1].union(*taken)
        self.stack += [NONE] * max(effect, 0)
