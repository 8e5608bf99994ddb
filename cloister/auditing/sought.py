"""What experiments look for and who looks, in plain words."""

from ..threat_models.audit.observer import NETWORK, OUTSIDER

SOUGHT = {
    "updates": "single clients' updates",
    "masks": "masks that are not uniform, or serve twice",
    "floor": "sums that rest on fewer clients than the floor",
    "permutation": "the secret order of updates' numbers",
    "disaggregation": "single updates out of sums",
    "clusters": "which clients share a cluster",
    "counts": "how many samples a client has",
    "labels": "how frequent each label is with a client",
    "embeddings": "the labels of single records, by their embeddings",
    "label shares": "the labels of the records that are compared",
    "membership": "whether a record was trained on",
    "membership by the final model": "whether a record was trained on",
    "property": "a property of a client's data",
    "images": "single records",
    "ckks key": "ciphertexts, opened",
    "inconsistent models": "single updates, by models of which clients get different ones",
}
"""What each experiment looks for, in plain words. An experiment of the user's own goes by its name."""
CALLED = {NETWORK.name: "whoever watches the network", OUTSIDER.name: "an outsider who is handed the final models"}
GRAVEST = (
    "images", "ckks key", "updates", "inconsistent models", "disaggregation", "membership",
    "membership by the final model", "embeddings", "label shares", "masks", "floor", "permutation", "labels", "property",
    "counts", "clusters",
)  # fmt: skip
"""What weighs most where it leaks, first: what is of single records, then of single updates. The user's own are before all."""


def sought(experiment: str) -> str:
    """In words; of an experiment of the user's own, by its name."""
    return SOUGHT.get(experiment, f"what {experiment!r} seeks")
