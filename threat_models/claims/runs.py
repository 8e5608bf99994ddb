"""Which runs a claim is about: predicates on a protection and an algorithm, by what the algorithm asks the protection for."""

from collections.abc import Sequence
from typing import Any

from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.protection import Masked
from ...protocol.pairs.choices import PerPair
from ...protocol.two_servers.protection import TwoServer
from ...protocol.uploaded.permuted import Permuted
from ...protocol.view.functionality import Functionality as F
from ..audit.view import PublishedSum

COMPARED = frozenset({F.GRAM, F.GRAM_ORIGIN, F.GRAM_EDGE, F.GRAM_RECALL, F.GRAM_REMEMBER, F.GRAM_HISTORY})
"""All that sketches of updates are asked for."""
ABOUT_THE_ORIGIN = frozenset({F.GRAM_ORIGIN, F.GRAM_REMEMBER, F.GRAM_HISTORY})
"""Inner products of updates themselves, and not of what differs between them."""


PLAINLY = {
    F.SUMS: "sums of updates",
    F.GRAM: "how much updates differ from each other",
    F.GRAM_ORIGIN: "how alike updates themselves are",
    F.GRAM_EDGE: "which cluster's updates a client's are like",
    F.GRAM_RECALL: "how much updates of earlier rounds differ",
    F.GRAM_REMEMBER: "how alike updates and earlier ones are",
    F.GRAM_HISTORY: "how alike all updates so far are",
    F.COORDINATES: "medians and the like of each coordinate",
    F.CHOICE: "which model serves each client best",
    F.SLOTS: "sums of updates by the model that clients chose",
    F.PAIRS: "comparisons of clients' records",
    F.PERSONAL_SUMS: "sums of updates for single clients",
    F.REVISION: "models that the server may change",
    F.FUSION: "sums of models for single clients",
}
"""What an algorithm asks for, to be read."""


def asked(protection: Any, algorithm: Any) -> frozenset[F]:
    """What the algorithm asks for under this protection: more, for some, where sums have noise."""
    noisy = getattr(protection, "noise", None) is not None
    found: frozenset[F] = getattr(algorithm, "needs_under_noise", algorithm.needs) if noisy else algorithm.needs
    return found


def all_answered(sums: Sequence[PublishedSum]) -> bool:
    """Whether in a recorded run whoever was asked for a sum is in it: then no roster changed but as algorithms part clusters."""
    return not any(s.missing for s in sums)


def masked(protection: Any, algorithm: Any) -> bool:
    """Under masked sums, whatever is asked."""
    return isinstance(protection, Masked)


def masked_with_one(protection: Any, algorithm: Any) -> bool:
    """Under masked sums that reckon with one corrupt client or more."""
    return masked(protection, algorithm) and bool(protection.corrupt >= 1)


def masked_with_two(protection: Any, algorithm: Any) -> bool:
    """The same with two."""
    return masked(protection, algorithm) and bool(protection.corrupt >= 2)


def sums_and_differences(protection: Any, algorithm: Any) -> bool:
    """Under `Masked` with keys of a session, of an algorithm that asks nothing about the origin and compares no records."""
    return masked(protection, algorithm) and protection.keys == "session" and _nothing_of(protection, algorithm, ABOUT_THE_ORIGIN)


def differences_of_fixed_cohorts(protection: Any, algorithm: Any) -> bool:
    """The same, of an algorithm that invites everybody, or fixed cohorts: which clients meet in sums does not change."""
    fixed = getattr(algorithm, "participation", 1.0) >= 1 or getattr(algorithm, "sampling", "cohorts") == "cohorts"
    return fixed and sums_and_differences(protection, algorithm)


def sums_alone(protection: Any, algorithm: Any) -> bool:
    """Under `Masked` with one corrupt client or more, of an algorithm that compares nothing: no update is sketched."""
    counted = masked(protection, algorithm) and protection.corrupt >= 1 and protection.floor >= 3
    return counted and _nothing_of(protection, algorithm, COMPARED)


def sums_alone_of_two(protection: Any, algorithm: Any) -> bool:
    """The same with two corrupt clients or more."""
    return sums_alone(protection, algorithm) and bool(protection.corrupt >= 2)


def two_servers_at_all(protection: Any, algorithm: Any) -> bool:
    """Under two servers, whatever is asked."""
    return isinstance(protection, TwoServer)


def two_servers(protection: Any, algorithm: Any) -> bool:
    """Under two servers, whatever is asked but comparisons of records."""
    return isinstance(protection, TwoServer) and F.PAIRS not in asked(protection, algorithm)


def two_servers_summing(protection: Any, algorithm: Any) -> bool:
    """Under two servers, of an algorithm that compares nothing."""
    return two_servers(protection, algorithm) and _nothing_of(protection, algorithm, COMPARED)


def encrypted(protection: Any, algorithm: Any) -> bool:
    """Under the clients' shared key, whatever is asked."""
    return isinstance(protection, Encrypted)


def permuted(protection: Any, algorithm: Any) -> bool:
    """Under a transform that clients share, whatever is asked."""
    return isinstance(protection, Permuted)


def hidden_from(count: int, protection: Any, algorithm: Any) -> bool:
    """Where so many clients are shown nothing of others but sums with three more in them: no records, models or personal sums.

    Of the squared weights of what others put into a sum one of them has a third at most, as the floor says of any `corrupt`
    clients that are taken out; for each client beyond these it is one less.
    """
    told = {F.PAIRS, F.PERSONAL_SUMS, F.FUSION} & asked(protection, algorithm)
    floor, corrupt = getattr(protection, "floor", 0), getattr(protection, "corrupt", 0)
    return not told and bool(floor - max(0, count - corrupt) >= 3)


def projected_pairs(protection: Any, algorithm: Any) -> bool:
    """Where pairs of clients exchange models, and show the server embeddings under a projection that is the pair's secret."""
    choice = getattr(algorithm, "choice", None)
    return isinstance(choice, PerPair) and (choice.embedding, choice.noise) == ("exchanged", None) and choice.projection != "none"


def pairs(protection: Any, algorithm: Any) -> bool:
    """Where clients are compared by embeddings of their records."""
    return F.PAIRS in asked(protection, algorithm)


def any_run(protection: Any, algorithm: Any) -> bool:
    """Every run."""
    return True


def in_words(protection: Any, algorithm: Any) -> str:
    """What decides which claims apply to a run: what is asked for, and the settings of the protection that claims go by."""
    found = asked(protection, algorithm)
    names = "; ".join(words for f, words in PLAINLY.items() if f in found) or "nothing"
    kept = [
        f"{words}{value}"
        for name, words in (("keys", "keys of one "), ("floor", "floor "), ("corrupt", "corrupt clients reckoned with: "))
        if (value := getattr(protection, name, None)) is not None
    ]
    share = getattr(algorithm, "participation", 1.0)
    kept += [f"{100 * share:g} % of the clients in a round, by {algorithm.sampling}"] if share < 1 else []
    return f"{type(algorithm).__name__} asks the server for {names}" + (f" ({', '.join(kept)})" if kept else "")


def absent_in_words(runs: Sequence[Sequence[PublishedSum]]) -> str:
    """In how many sums of these runs somebody is missing; empty where nobody is."""
    found = [s for sums in runs for s in sums]
    missed = sum(bool(s.missing) for s in found)
    return f"; of {len(found)} sums {missed} lack clients that were asked" if missed else ""


def _nothing_of(protection: Any, algorithm: Any, unwanted: frozenset[F]) -> bool:
    return not (unwanted | {F.PAIRS}) & asked(protection, algorithm)
