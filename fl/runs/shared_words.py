"""What clients are sent that is no mean of updates, and who is told more of a client than its upload says, for its own record."""

from collections.abc import Collection

from ...protocol.uploaded.fusing import NORMS, TOLD
from ...protocol.uploaded.sums import LAST_MEAN
from ...protocol.view.functionality import Functionality


def shared_in_words(needs: Collection[Functionality]) -> dict[str, str]:
    """needs: an algorithm's. mean: what means are that a client is sent. others: who else is told what of it, in sentences. Empty
    where means are of updates, and others have it in those alone.
    """
    if Functionality.FUSION not in needs:
        return {}
    combined = TOLD.replace("its own", "this client's")
    others = f"Of other clients each is told {combined}; those of a cluster with it are told {LAST_MEAN}."
    others += f" The coordinator has {NORMS}, two by two."
    return {"mean": f"{TOLD}; or {LAST_MEAN}", "others": others}
