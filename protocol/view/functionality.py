"""What a view can be asked for, and what a client tells where it is answered."""

from enum import StrEnum


class Functionality(StrEnum):
    """What a view can be asked for. An algorithm lists what it needs, a protection what it gives."""

    SUMS = "sums"
    GRAM = "gram"
    GRAM_ORIGIN = "gram(origin)"
    GRAM_EDGE = "gram(edge)"
    GRAM_RECALL = "gram(recall)"
    GRAM_REMEMBER = "gram(remember)"
    GRAM_HISTORY = "gram(history)"
    COORDINATES = "coordinates"
    CHOICE = "choice"
    SLOTS = "slots"
    PAIRS = "pairs"
    PERSONAL_SUMS = "personal sums"
    REVISION = "models that the server may change"
    FUSION = "fusion"


EMBEDDING_MODEL = "embedding model"
FULL_GRADIENTS = "full gradients"
NUMBER_OF_EXAMPLES = "number of examples"

NOISE_FREE = {
    Functionality.SUMS.value: "sums of its updates, and the models that come of them",
    Functionality.GRAM.value: "sketches of its updates' differences from others', or the inner products themselves",
    Functionality.GRAM_ORIGIN.value: "sketches of its updates, or the inner products themselves",
    Functionality.GRAM_EDGE.value: "sketches by which it is placed in a cluster",
    Functionality.GRAM_RECALL.value: "sketches of its last update's difference from others'",
    Functionality.GRAM_REMEMBER.value: "what is kept of its updates, and compared with later ones",
    Functionality.GRAM_HISTORY.value: "what is kept of all of its updates, and compared",
    Functionality.COORDINATES.value: "order statistics of its updates",
    Functionality.CHOICE.value: "the name of the model that serves it best",
    Functionality.SLOTS.value: "sums of its updates by choice, and how many made it",
    Functionality.PERSONAL_SUMS.value: "sums of its updates for single clients",
    Functionality.FUSION.value: "its last model, and sums of models, its own among them, for single clients",
    Functionality.PAIRS.value: "embeddings of its records, bases or distances of them, with noise for one record alone or none",
    EMBEDDING_MODEL: "the model that embeds its records and that other clients are shown, which was trained on them",
    FULL_GRADIENTS: "gradients over all of its records, or sketches, sums or inner products of them",
    NUMBER_OF_EXAMPLES: "how many records it has",
}
"""By the name to acknowledge it by: what a client tells where the answer has no noise of this claim."""
