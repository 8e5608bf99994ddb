"""Claims of `TwoServer` (cards/two_servers.md). None of the first server where updates are compared."""

from typing import Any

from .observers import dealer, second_server, server_alone, server_and_a_client, server_and_two_clients
from .runs import two_servers, two_servers_at_all, two_servers_summing
from .sought import LESS, floor_kept, kept, kept_from_clients, uniform

WHERE = "TwoServer, no records compared"
SUMMING = "TwoServer, no updates compared"
FIRST = "server", "the first server alone", server_alone
WITH_ONE = "server-and-client", "the first server with one client", server_and_a_client
WITH_TWO = "server-and-two-clients", "the first server with two clients", server_and_two_clients
OWN = "the share that is added to an update, whose key its client alone drew,"
DEALER_ALONE = "dealer", "the dealer", dealer


def _with_one(protection: Any, algorithm: Any) -> bool:
    return two_servers_at_all(protection, algorithm) and bool(protection.corrupt >= 1)


def _with_two(protection: Any, algorithm: Any) -> bool:
    return two_servers_at_all(protection, algorithm) and bool(protection.corrupt >= 2)


def _summing_with_one(protection: Any, algorithm: Any) -> bool:
    return two_servers_summing(protection, algorithm) and bool(protection.corrupt >= 1 and protection.floor >= 3)


def _summing_with_two(protection: Any, algorithm: Any) -> bool:
    return _summing_with_one(protection, algorithm) and bool(protection.corrupt >= 2)


CLAIMS = (
    *uniform("two_servers", FIRST, two_servers_at_all, "TwoServer", "the share that is added to an update"),
    *uniform("two_servers", WITH_ONE, _with_one, "TwoServer(corrupt=1 or more)", OWN),
    *uniform("two_servers", WITH_TWO, _with_two, "TwoServer(corrupt=2 or more)", OWN),
    *floor_kept("two_servers", FIRST, two_servers_at_all, "TwoServer"),
    *kept("two_servers", "updates, labels", ("second-server", "the second server", second_server), two_servers, WHERE, 0.1),
    *kept("two_servers", "updates, labels", DEALER_ALONE, two_servers, WHERE, 0.1),
    *kept("two_servers", "clusters", DEALER_ALONE, two_servers, WHERE, 0.1, beyond="chance does"),
    *kept(
        "two_servers",
        "updates, labels, membership, images, property",
        FIRST,
        two_servers_summing,
        SUMMING,
        0.1,
    ),
    *kept(
        "two_servers",
        "updates",
        WITH_ONE,
        _summing_with_one,
        f"{SUMMING}, corrupt=1 or more, floor=3 or more",
        0.1,
        beyond=LESS,
    ),
    *kept(
        "two_servers",
        "updates",
        WITH_TWO,
        _summing_with_two,
        f"{SUMMING}, corrupt=2 or more, floor=3 or more",
        0.1,
        beyond=LESS,
    ),
    *kept_from_clients("two_servers", "updates", two_servers, "TwoServer"),
)
