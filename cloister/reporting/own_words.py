"""What a client's messages say, and those that it is sent, in words, and who can read them."""

from collections.abc import Mapping

COORDINATOR, CLIENTS = "the coordinator", "other clients, sealed; the coordinator sees its size"
SAID: Mapping[str, tuple[str, str]] = {
    "MaskedInput": ("its update, hidden by masks that vanish in the sum", COORDINATOR),
    "MaskedInput, weights": (
        "the number of its records and its square, hidden by masks that vanish in the sums, of which both are told",
        COORDINATOR,
    ),
    "MaskedInput, counts": ("which model it chose, hidden by masks that vanish in the sum of all choices", COORDINATOR),
    "MaskedInput, zeros": ("zeros in the place of its update, hidden by masks, as too few chose what it chose", COORDINATOR),
    "EncryptedInput": ("its update, under the clients' key", COORDINATOR),
    "ExplicitShare": (
        "a share of its update, which says nothing without the other, and the number of its records, as it is",
        COORDINATOR,
    ),
    "KeyShare": ("the other share of its update, as a key", "the second server"),
    "SlotShare": ("shares of its update for slots, which say nothing without the others", COORDINATOR),
    "SlotKey": ("the other shares of its update for slots, as a key", "the second server"),
    "OffsetSketched": ("a sketch of its update, under a secret of the clients", COORDINATOR),
    "Upload, sketch": ("a sketch of its whole update, by a secret of the clients", COORDINATOR),
    "SumOpened": ("what a sum that it opened says, of slots how many chose each", COORDINATOR),
    "RoundedScores": ("cosines and norms of updates, rounded", COORDINATOR),
    "OpenedTotal": ("a sum that it opened", COORDINATOR),
    "Choice": ("which model serves it best", COORDINATOR),
    "Score": ("how well it predicts its own test records", COORDINATOR),
    "PairClouds": ("what it is compared by", COORDINATOR),
    "PairDistance": ("the distance that it measured to another client", COORDINATOR),
    "SealedCloud": ("its embedded data", CLIENTS),
    "SealedEmbedding": ("its embedding model", CLIENTS),
    "Lent": ("a model that clients hold", CLIENTS),
    "Score, empty": ("that it does not say how well it predicts", COORDINATOR),
    "Ready": ("that its work is done, which stays here until a sum is made", COORDINATOR),
    "Withheld": ("that it shares nothing, as its update is not finite or longer than max_norm", COORDINATOR),
    "Declined": ("that it sits out, and why", COORDINATOR),
    "Declined, weights": ("that it sits out, and why", COORDINATOR),
    "Leaving": ("that it takes no further part, and of terms why", COORDINATOR),
    "Holds": ("which models it holds, by name", COORDINATOR),
    "Accepted": ("whom it agrees to mask with", COORDINATOR),
    "Reveal": ("shares that take masks of the missing out of a sum", COORDINATOR),
    "SealedShares": ("shares of its masks' seeds", CLIENTS),
    "SealedSeed": ("the seed that all clients share", CLIENTS),
    "OfferedKey": ("a key of a sum", CLIENTS),
}
"""Of kinds of messages: what is in them, and for whom. Any other has keys, signatures and nothing else. "Score, empty" is of a
client that keeps it, "MaskedInput, weights" and ", counts" of sums that come before updates, ", zeros" of a client that chose
nothing that a sum opens, "Upload, sketch" of one under a protection that shows no update."""
ZEROS = "MaskedInput, zeros"
"""An input to a sum into slots, of a client that chose none of those that are open."""
KEYS = ("keys, signatures and what they are of", COORDINATOR)
UPLOADED = {
    "Plain": "its update and the number of its records, as they are",
    "Permuted": "its update under a secret transform that all clients know, and the number of its records",
}
UPDATES = frozenset({"Upload", "MaskedInput", "EncryptedInput", "ExplicitShare", "SlotShare"})
"""Messages that have the result of its work in them, in whatever form."""
OF_DATA = UPDATES | {
    "MaskedInput, weights",
    "MaskedInput, counts",
    "OffsetSketched",
    "Upload, sketch",
    "Choice",
    "Score",
    "PairClouds",
    "PairDistance",
    "SealedCloud",
    "SealedEmbedding",
}
"""Messages that say something of its data, in whatever form, and of nobody else's."""
SKETCHES = frozenset({"OffsetSketched", "Upload, sketch"})
COMPARED = frozenset({"Choice", "PairClouds", "PairDistance", "SealedCloud", "SealedEmbedding"})
WITHOUT_NOISE: Mapping[str, frozenset[str]] = {"client": COMPARED | SKETCHES | {"Score"}, "record": COMPARED | {"Score"}}
"""Of `OF_DATA`, by whom an epsilon is for, what has no noise: under noise in training a sketch is of what was trained with it."""
BESIDE_COMPARED = OF_DATA - {"PairClouds", "PairDistance"}
"""The same where the epsilon is of what was released to be compared, and of nothing else."""
SENT: Mapping[str, str] = {
    "Task": "what to work on, with the model to work from, where the coordinator has it",
    "Mean": "the mean of its cluster's updates, or what its method makes of updates and models in that place",
    "Lent": "a model",
    "EncryptedSum": "a sum of updates under the clients' key, to open",
    "OpenSlots": "sums of slots under the clients' key, to open",
    "ScoreRequest": "products of updates under the clients' key, to open",
    "final": "its final model",
    "Recipe": "how the next model is made of those that it holds",
    "Offer": "models to choose from",
    "OpenedTotal": "a sum of others' updates, which it alone opens",
    "Evaluate": "the question how well it predicts",
    "RoundOver": "that a round is over",
    "Survivors": "whose updates are in a sum",
    "RelayedShares": "shares of its neighbours' masks, sealed for it",
    "SealedSeed": "the seed that all clients share, sealed for it",
    "SealedCloud": "another client's embedded data, sealed for it",
    "SealedEmbedding": "another client's embedding model, sealed for it",
}
"""Of kinds of messages that it is sent: what is in them. Any other has terms, keys, signatures and nothing else."""
TERMS = "terms, keys and signatures"
