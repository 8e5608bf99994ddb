"""What the CFL paper claims of its privacy step, and the little that Cloister does (cards/permuted_cfl.md)."""

from .observers import server_alone
from .runs import permuted
from .sought import kept, kept_from_clients

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
    *kept_from_clients("permuted", "updates", permuted, "Permuted", most=1),
)
