"""Claims of `Masked`: masked sums, with sketches of differences (cards/masked_sum.md, cards/private_gram.md)."""

from .observers import server_alone, server_and_a_client, server_and_two_clients
from .runs import (
    all_answered,
    differences_of_fixed_cohorts,
    masked,
    masked_with_one,
    masked_with_two,
    sums_alone,
    sums_alone_of_two,
    sums_and_differences,
)
from .sought import LESS, floor_kept, kept, kept_from_clients, uniform

ALONE = "server", "the server alone", server_alone
WITH_ONE = "server-and-client", "the server with one client", server_and_a_client
WITH_TWO = "server-and-two-clients", "the server with two clients", server_and_two_clients
LEFT = "what is left of the mask on an update, less all masks that they can compute,"

CLAIMS = (
    *uniform("masked", ALONE, masked, "Masked", "the mask on an update, also less the masks that it can compute,"),
    *uniform("masked", WITH_ONE, masked_with_one, "Masked(corrupt=1 or more)", LEFT),
    *uniform("masked", WITH_TWO, masked_with_two, "Masked(corrupt=2 or more)", LEFT),
    *floor_kept("masked", ALONE, masked, "Masked"),
    *kept(
        "masked",
        "updates, labels, membership, images, property",
        ALONE,
        sums_and_differences,
        "Masked, keys of one session, only differences of updates compared",
        0.1,
    ),
    *kept(
        "masked",
        "disaggregation, counts",
        ALONE,
        differences_of_fixed_cohorts,
        "Masked, keys of one session, only differences of updates compared, the same clients asked each time, who all answer",
        0.1,
        given=all_answered,
    ),
    *kept(
        "masked",
        "updates",
        WITH_ONE,
        sums_alone,
        "Masked(corrupt=1 or more, floor=3 or more), no updates compared",
        0.1,
        beyond=LESS,
    ),
    *kept(
        "masked",
        "updates",
        WITH_TWO,
        sums_alone_of_two,
        "Masked(corrupt=2 or more, floor=3 or more), no updates compared",
        0.1,
        beyond=LESS,
    ),
    *kept_from_clients("masked", "updates, labels", masked, "Masked"),
    *kept("masked", "inconsistent models", ALONE, masked, "Masked", 0.1),
)
