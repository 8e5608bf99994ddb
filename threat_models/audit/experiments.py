"""The experiments that an audit tries, and the observers that it tries them on."""

from collections.abc import Sequence

from ...protocol.core.session import DEALER, SECOND_SERVER, SERVER
from ...protocol.two_servers.protection import TwoServer
from .ckks import CkksKeyRecovery
from .clusters import ClusterInference
from .counts import SampleCounts
from .embeddings import EmbeddingInference
from .experiment import Experiment
from .images import GradientInversion
from .inconsistent import InconsistentModels
from .labels import LabelInference
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
    KnownModels(),
    Disaggregation(),
    ClusterInference(),
    SampleCounts(),
    LabelInference(),
    EmbeddingInference(),
    LabelShares(),
    MembershipInference(),
    PropertyInference(),
    GradientInversion(),
    CkksKeyRecovery(),
    InconsistentModels(),
)


def observers_of(protection: object, clients: Sequence[int], sums: Sequence[PublishedSum] = ()) -> tuple[Observer, ...]:
    """Everybody whom a threat model speaks of. Where clients are corrupt, those of the smallest of these sums, by id: they have
    the largest part in what others hide in.
    """
    smallest = {i: min((len(s.row) for s in sums if i in s.row), default=len(clients)) for i in clients}
    first = sorted(clients, key=lambda i: (smallest[i], i))[:2]
    servers: tuple[Observer, ...] = (SERVER_ALONE, server_and(first[0]))
    if isinstance(protection, TwoServer):
        both = Observer(frozenset({SERVER, SECOND_SERVER}))
        others = (Observer(frozenset({SECOND_SERVER})), Observer(frozenset({DEALER})))
        servers = (SERVER_ALONE, *others, server_and(first[0]), both)
    return (*servers, Observer(clients=frozenset(first[:1])), Observer(clients=frozenset(first)), NETWORK)
