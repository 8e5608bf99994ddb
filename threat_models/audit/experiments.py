"""The experiments that an audit tries, and the observers that it tries them on."""

from collections.abc import Sequence
from itertools import combinations

from ...protocol.core.session import DEALER, SECOND_SERVER, SERVER
from ...protocol.encrypted.protection import Encrypted
from ...protocol.two_servers.protection import TwoServer
from .ckks import CkksKeyRecovery
from .clusters import ClusterInference
from .counts import SampleCounts
from .embeddings import EmbeddingInference
from .experiment import Experiment
from .final_models import FinalModelMembership
from .floor_kept import FloorKept
from .images import GradientInversion
from .inconsistent import InconsistentModels
from .labels import LabelInference
from .masks import AddedWords
from .membership import MembershipInference
from .observer import NETWORK, SERVER_ALONE, Observer, server_and
from .participation import Disaggregation
from .permuted import KnownModels
from .properties import PropertyInference
from .recovery import UpdateRecovery
from .shares_of_labels import LabelShares
from .view import PublishedSum

EXPERIMENTS: tuple[Experiment, ...] = (
    UpdateRecovery(),
    AddedWords(),
    FloorKept(),
    KnownModels(),
    Disaggregation(),
    ClusterInference(),
    SampleCounts(),
    LabelInference(),
    EmbeddingInference(),
    LabelShares(),
    MembershipInference(),
    FinalModelMembership(),
    PropertyInference(),
    GradientInversion(),
    CkksKeyRecovery(),
    InconsistentModels(),
)


def observers_of(protection: object, clients: Sequence[int], sums: Sequence[PublishedSum] = ()) -> tuple[Observer, ...]:
    """Everybody whom a threat model speaks of, up to the largest coalition that the protection's own `corrupt` reckons with.

    Where clients are corrupt, those of the smallest of these sums, by id: they have the largest part in what others hide in.
    One client at least stays honest.
    """
    smallest = {i: min((len(s.row) for s in sums if i in s.row), default=len(clients)) for i in clients}
    first = sorted(clients, key=lambda i: (smallest[i], i))
    corrupt = min(getattr(protection, "corrupt", 0), len(first) - 1)
    servers = (SERVER_ALONE, *(server_and(*first[:count]) for count in dict.fromkeys((1, corrupt)) if 0 < count < len(first)))
    if isinstance(protection, TwoServer):
        alone = [Observer(frozenset({party})) for party in (SECOND_SERVER, DEALER)]
        pairs = [Observer(frozenset(two)) for two in combinations((SERVER, SECOND_SERVER, DEALER), 2)]
        servers = (SERVER_ALONE, *alone, *servers[1:], *pairs)
    together = (2, corrupt + 1) if isinstance(protection, Encrypted) and corrupt > 1 else (2,)  # there clients see the sums
    groups = tuple(Observer(clients=frozenset(first[:count])) for count in (1, *together) if count < len(first))
    return (*servers, *groups, NETWORK)
