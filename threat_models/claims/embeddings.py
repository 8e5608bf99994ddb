"""What EMD-CFL claims of projected embeddings, and Cloister of other choices (cards/projected_embeddings.md)."""

from .observers import server_alone, server_and_a_client
from .runs import mean_sketches, measured_pairs, projected_pairs
from .sought import kept

ALONE = "server", "the server alone", server_alone
WITH_ONE = "server-and-client", "the server with one client", server_and_a_client

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
    *kept("distances", "embeddings", ALONE, measured_pairs, "EMD-CFL, DISTANCES", 0.1),
    *kept("mean_sketch", "embeddings", ALONE, mean_sketches, "EMD-CFL, MeanSketch", 0.1),
    *kept("mean_sketch", "embeddings", WITH_ONE, mean_sketches, "EMD-CFL, MeanSketch", 0.1),
)
