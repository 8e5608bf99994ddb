"""Claims of `Masked`: masked sums, with sketches of differences (cards/masked_sum.md, cards/private_gram.md)."""

from .observers import client_alone, server_alone, server_and_a_client
from .runs import hidden_from_clients, masked, sums_alone, sums_and_differences
from .sought import kept

SHARE = 0.15
"""What one's own part tells of the others' in a sum of floor + 1 = 4: 1 - (1 - 1/3) / (1 - 1/4) = 0.11, and a margin."""

DEFAULT = "Masked, keys of a session, nothing asked about the origin"

CLAIMS = (
    *kept(
        "masked",
        "updates, labels, membership, images, property, disaggregation, counts",
        ("server", "the server alone", server_alone),
        sums_and_differences,
        DEFAULT,
        0.1,
    ),
    *kept(
        "masked",
        "updates",
        ("server-and-client", "the server with one client", server_and_a_client),
        sums_alone,
        "Masked(corrupt=1 or more, floor=3 or more), nothing compared",
        SHARE,
    ),
    *kept(
        "masked",
        "updates, labels",
        ("client", "one client", client_alone),
        lambda protection, algorithm: masked(protection, algorithm) and hidden_from_clients(protection, algorithm),
        "Masked(floor=3 or more), no comparison of records, no personal sums",
        SHARE,
    ),
    *kept("masked", "inconsistent models", ("server", "the server alone", server_alone), masked, "Masked", 0.1),
)
