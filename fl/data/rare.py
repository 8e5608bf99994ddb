"""Labels that one record alone has: misspelt perhaps, and nothing that a model could be told to know."""

from difflib import get_close_matches

import torch

from .population import Source
from .spelling import is_number, said_of_decimals

SHOWN = 3
"""Labels that are named."""


def rare_labels(source: Source) -> list[str]:
    """A line where labels of one record alone are classes of their own; none where there is no such label.

    Of numbers and of token data, which have no labels, none. Of decimals, that they are read as classes.
    """
    y = torch.cat([source.train.y, source.test.y])
    if y.ndim != 1 or y.is_floating_point() or not len(y):
        return []
    if words := said_of_decimals(source.labels):
        return [words]
    counts = torch.bincount(y, minlength=source.classes)
    alone = torch.nonzero(counts == 1).flatten().tolist()
    if not alone:
        return []
    often = [_word(source, code) for code in torch.nonzero(counts > 1).flatten().tolist()]
    some = ", ".join(_named(source, code, often) for code in alone[:SHOWN])
    some += f" and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
    if len(alone) == 1:
        return [f"of label {some} there is one record alone, and it is a class of its own of {source.classes}"]
    hint = "" if len(alone) <= len(often) else ": is it the column of labels? Numbers to be predicted are numbers=True"
    return [f"of labels {some} there is one record alone each, and they are classes of their own of {source.classes}{hint}"]


def _named(source: Source, code: int, often: list[str]) -> str:
    """The label, whose it is, and what was perhaps meant."""
    word = _word(source, code)
    beside = []
    owner = [part.topic[part.y == code] for part in (source.train, source.test) if part.topic is not None]
    if source.clients and (places := [place for of in owner for place in of.tolist()]):
        beside.append(f"client {source.clients[places[0]]}")
    if not is_number(word) and (close := get_close_matches(word, often, 1)):
        beside.append(f"did you mean {close[0]!r}?")
    return repr(word) + (f" ({', '.join(beside)})" if beside else "")


def _word(source: Source, code: int) -> str:
    return source.labels[code] if source.labels else str(code)
