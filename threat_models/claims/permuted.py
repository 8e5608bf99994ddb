"""What the CFL paper claims of its privacy step, and the little that Cloister does (cards/permuted_cfl.md)."""

from .masked import SHARE
from .observers import client_alone, server_alone
from .runs import hidden_from_clients, permuted
from .sought import kept

CLAIMS = (
    *kept(
        "permuted",
        "permutation, labels",
        ("server", "the server alone", server_alone),
        permuted,
        "CFL with updates under a transform that clients share (Sattler et al. 2020, V-B, Eq. 45-46)",
        0.1,
        whose="paper",
    ),
    *kept(
        "permuted",
        "updates",
        ("client", "one client", client_alone),
        lambda protection, algorithm: permuted(protection, algorithm) and hidden_from_clients(protection, algorithm),
        "Permuted(floor=3 or more), no personal sums, no fusion",
        SHARE,
    ),
)
