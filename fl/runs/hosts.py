"""Where the clients of a run are, if they are not in the process that plays it; and what a server begins with then."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Protocol

from ...crypto.entropy import Entropy
from ...protocol.view.answers import Vector
from ...protocol.view.asks import ServerView
from ...protocol.view.protection import Setup
from ...protocol.work.maker import Maker
from ..clients.embedders import Facts

if TYPE_CHECKING:
    from ...protocol.pairs.question import Comparing

OF_NUMBERS = (
    "targets here are numbers, and clients elsewhere say how many labels they find: a regression is played in simulations, by"
    " `cloister run`"
)
"""Why a scenario is not served."""


class Hosts(Protocol):
    """Where the clients of a run are, in processes of their own. run: 16 bytes that name the run, drawn for it. entropy: where
    the server's secrets come from, the same ones when it is started again. scores: whether clients are asked how well they
    predict, also where the server could tell; they are wherever it cannot. gathered: see `Setup`; None where a run
    begins with all clients or not at all.
    """

    @property
    def run(self) -> bytes: ...
    @property
    def entropy(self) -> Entropy: ...
    @property
    def scores(self) -> bool: ...
    @property
    def gathered(self) -> Callable[[int, str], object] | None: ...
    def __call__(self, maker: Maker, /) -> Mapping[int, object]: ...
    def helpers(self) -> Mapping[int, object]:
        """A second server and a dealer, where the run has them."""
        ...

    def begin(self, round: int, view: ServerView, /) -> None:
        """What follows is of this round, whose checkpoint is there, or is written next."""
        ...

    def missed(self) -> Mapping[int, str]:
        """Who gave no answer in time since the round began, and what is known of why."""
        ...

    def admit(self, view: ServerView, /) -> None:
        """Before a round: who was not ready for the run, and is there now, takes part from here on."""
        ...

    def finished(self, models: Mapping[int, Sequence[Vector | str]], /) -> None:
        """The run is over, and these are the clients' models; of those that a client holds itself, their names."""
        ...


def elsewhere(setup: Setup, hosts: Hosts, comparing: "Comparing | None") -> Setup:
    """What a server begins with where clients are elsewhere: secrets that it keeps, and no data."""

    def nobody(_: object) -> NoReturn:
        raise RuntimeError("a coordinator does no work of a client's")

    mine = replace(setup, run=hosts.run, entropy=hosts.entropy, hosts=hosts, helpers=hosts.helpers, comparing=comparing)
    embedders = None if setup.embedders is None else Facts(setup.embedders)
    return replace(mine, workers=nobody, judge=nobody, embedders=embedders, besides=None, gathered=hosts.gathered)
