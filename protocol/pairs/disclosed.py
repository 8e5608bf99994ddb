"""What is disclosed by pairs, in words for the disclosure log and for a client's own record."""

from .choices import Choice, Distances, MeanSketch, PerPair, PerRound, ServerSamples

MODELS = "the embedding models of the clients that they were compared with"
EDGES = "with whom they are joined, each of its own pairs"


def answers_in_words(choice: Choice, shown: str = "") -> str:
    """What clients' answers told the server. shown: as in `PairQuestion`."""
    noise = getattr(choice, "noise", None)
    behind = "" if noise is None else f", with noise for one {noise.unit}"
    match choice:
        case ServerSamples():
            return "samples of clients' examples, as they are, and a reference distance each"
        case MeanSketch():
            return f"the projected mean of each client's {shown or 'public embeddings'}{behind}"
        case Distances():
            return f"the distance and the reference distance that each client of a pair measured{behind}"
        case PerRound(projection=name):
            how = "as they are" if name == "none" else "under one rotation of all clients in this round, which the server lacks"
            return f"the directions in which each client's embeddings by its own model vary most, {how}"
        case PerPair(projection="none"):
            if shown:
                return f"{shown}, as they are{behind}"
            return f"embeddings of clients' examples, as they are, and a reference distance for each pair{behind}"
        case PerPair(projection=name):
            secret = f"a secret projection ({name}) of each pair, which the server lacks"
            if shown:
                return f"{shown}, under {secret}{behind}"
            return f"embeddings under {secret}, and a reference distance{behind}"
    if shown:
        return f"{shown}, under one projection of all clients, which the server lacks{behind}"
    return f"public embeddings under one projection of all clients, which the server lacks, and a reference distance{behind}"


def own_answers_in_words(choice: Choice, shown: str = "") -> str:
    """The same, as one client says it of its own. shown: as in `PairQuestion`."""
    return answers_in_words(choice, shown).replace("each client's", "its").replace("clients' examples", "its examples")


def together_in_words(choice: Choice) -> str:
    """Who has what a client released without its projection, in a sentence; empty where the server has it as it is."""
    if isinstance(choice, Distances):
        whom = "Each client that it was compared with has its embeddings as they are, and so has the coordinator with that one"
        return f"{whom} together."
    if getattr(choice, "projection", "") == "none" or isinstance(choice, ServerSamples):
        return ""
    other = "the other client of a pair" if isinstance(choice, PerPair) else "any one other client"
    beside = ", with its noise" if getattr(choice, "noise", None) is not None else ""
    return f"The coordinator and {other} together have that without the projection, nearly exactly{beside}."


def decisions_in_words(choice: Choice, decided: str = "") -> str:
    """What the server computed from that. decided: as in `PairQuestion`."""
    if decided:
        return decided
    if isinstance(choice, PerRound):
        return "the angles between them"
    of = "reported distances" if isinstance(choice, Distances) else "distances"
    return f"{of} above the references, or who accepts whom"


def shown_in_words(choice: Distances) -> str:
    """What clients that measure were shown by those that they were compared with."""
    model = "a model of their own" if choice.embedding == "exchanged" else "the public model"
    return f"the embeddings, under {model} and as they are, of the clients that they were compared with"
