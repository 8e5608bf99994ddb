"""AG-News for next-word prediction: tokens, vocabulary and fixed-length examples."""

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..field_ranges import need_whole
from .folder import data_folder, obtain
from .population import Examples, Source

AG_NEWS_URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
AG_NEWS_MD5 = {"train.csv": "b1a00f826fdfbd249f79597b59e1dc12", "test.csv": "d52ea96a97a2d943681189a97654912d"}
TOPICS = {"1": 0, "2": 1, "3": 2, "4": 3}
"""Labels in the csv files, and the topics they stand for: 0 World, 1 Sports, 2 Business, 3 Sci/Tech."""

_SPACING = str.maketrans({mark: f" {mark} " for mark in ".,()!?'"} | dict.fromkeys(";:\\", " ") | {'"': ""})


def tokens(text: str) -> list[str]:
    """Lower-case words and marks: .,()!?' stand alone, ; : and the backslash (a line break in AG-News) part words.

    >>> tokens('It isn\\'t "over": wait.')
    ['it', 'isn', "'", 't', 'over', 'wait', '.']
    """
    return text.lower().replace("<br />", " ").translate(_SPACING).split()


@dataclass(frozen=True, slots=True)
class AgNews:
    """AG-News, 120,000 + 7,600 articles in 4 topics, for predicting the next word, from FOLDER/ag_news_csv/{train,test}.csv.

    vocabulary: number of ids; 0 is <unk>, 1, 2, ... are the words of the training text by falling frequency, ties in
        alphabetical order. A training text of fewer words gives fewer ids.
    length: an example is the first `length` + 1 tokens of title and description: x all but the last of them, y all but the
        first. After a shorter article x is 0 and y is -1. Articles of fewer than two tokens are left out.
    The topic of every article is kept (TOPICS).
    """

    vocabulary: int = 10_000
    length: int = 30

    def __post_init__(self) -> None:
        need_whole(self, 2, "vocabulary")
        need_whole(self, 1, "length")

    def __call__(self, folder: Path | None) -> Source:
        home = data_folder(folder) / "ag_news_csv"
        train_path, test_path = (obtain([home / file], AG_NEWS_URL + file, md5) for file, md5 in AG_NEWS_MD5.items())
        numbers = _Numbers()
        train = _read(train_path, numbers)
        words = list(numbers)  # of the training text, in the order of their numbers
        counts = np.bincount(train.tokens, minlength=len(words))
        by_frequency = sorted(range(len(words)), key=lambda number: (-counts[number], words[number]))
        test = _read(test_path, numbers)
        ids = np.zeros(len(numbers), dtype=np.int64)  # 0 also for the words that only the test text has
        kept = by_frequency[: self.vocabulary - 1]
        ids[kept] = np.arange(1, len(kept) + 1)
        return Source("AG-News", train.examples(ids, self.length), test.examples(ids, self.length), classes=len(kept) + 1)


class _Numbers(dict[str, int]):
    """Numbers words 0, 1, 2, ... in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, len(self))


@dataclass(frozen=True, slots=True, eq=False)
class _Articles:
    """Articles as numbered words, all in one row.

    tokens: int32, shape (words of all articles,); ends: int64, shape (n,), where each article ends in it; topics: int64 (n,).
    """

    tokens: NDArray[np.int32]
    ends: NDArray[np.int64]
    topics: NDArray[np.int64]

    def examples(self, ids: NDArray[np.int64], length: int) -> Examples:
        """The examples that AgNews describes; `ids` gives the id of every word number."""
        starts = np.concatenate([[0], self.ends[:-1]])
        long_enough = self.ends - starts >= 2
        starts, ends = starts[long_enough, None], self.ends[long_enough, None]
        positions = starts + np.arange(length + 1)
        rows = np.where(positions < ends, ids[self.tokens[np.minimum(positions, ends - 1)]], -1)
        x, y = rows[:, :-1], rows[:, 1:].copy()
        return Examples(torch.from_numpy(np.where(y < 0, 0, x)), torch.from_numpy(y), torch.from_numpy(self.topics[long_enough]))


def _read(path: Path, numbers: _Numbers) -> _Articles:
    """All articles of a csv file; words that `numbers` does not know yet are added to it."""
    flat, ends, topics = array("i"), array("q"), array("q")
    for topic, text in _rows(path):
        flat.extend(map(numbers.__getitem__, tokens(text)))
        ends.append(len(flat))
        topics.append(topic)
    if not flat:
        raise ValueError(f"{path} has no articles; it needs lines of label, title, description")
    return _Articles(np.array(flat, np.int32), np.array(ends, np.int64), np.array(topics, np.int64))


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        try:
            for row in lines:
                if len(row) != 3 or row[0] not in TOPICS:
                    raise ValueError(f"{path}, line {lines.line_num}: expected a label from 1 to 4, a title and a description")
                yield TOPICS[row[0]], f"{row[1]} {row[2]}"
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}, after line {lines.line_num}: not a csv file in UTF-8") from error
