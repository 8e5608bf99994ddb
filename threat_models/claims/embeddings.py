"""What EMD-CFL claims of projected embeddings (cards/projected_embeddings.md); of no choice is anything claimed here of ours."""

from .observers import server_alone
from .runs import projected_pairs
from .sought import kept

ALONE = "server", "the server alone", server_alone

CLAIMS = (
    *kept(
        "emd",
        "embeddings",
        ALONE,
        projected_pairs,
        "EMD-CFL with a secret projection a pair (EMD-CFL, section 3)",
        0.1,
        whose="paper",
    ),
)
