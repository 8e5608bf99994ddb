"""Claims of `TwoServer` (cards/two_servers.md). None of the first server where updates are compared."""

from typing import Any

from .masked import SHARE
from .observers import client_alone, dealer, second_server, server_alone, server_and_a_client
from .runs import hidden_from_clients, two_servers, two_servers_summing
from .sought import kept

WHERE = "TwoServer, no comparison of records"
SUMMING = "TwoServer, nothing compared"


def _with_one(protection: Any) -> bool:
    return bool(protection.corrupt >= 1 and protection.floor >= 3)


CLAIMS = (
    *kept("two_servers", "updates, labels", ("second-server", "the second server", second_server), two_servers, WHERE, 0.1),
    *kept("two_servers", "updates, labels", ("dealer", "the dealer", dealer), two_servers, WHERE, 0.1),
    *kept(
        "two_servers",
        "updates, labels, membership, images",
        ("server", "the first server alone", server_alone),
        two_servers_summing,
        SUMMING,
        0.1,
    ),
    *kept(
        "two_servers",
        "updates",
        ("server-and-client", "the first server with one client", server_and_a_client),
        lambda protection, algorithm: two_servers_summing(protection, algorithm) and _with_one(protection),
        f"{SUMMING}, corrupt=1 or more, floor=3 or more",
        SHARE,
    ),
    *kept(
        "two_servers",
        "updates",
        ("client", "one client", client_alone),
        lambda protection, algorithm: two_servers(protection, algorithm) and hidden_from_clients(protection, algorithm),
        f"{WHERE}, floor=3 or more",
        SHARE,
    ),
)
