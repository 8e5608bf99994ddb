"""The clients of a simulation: their local training, their embeddings, and the door for those that are corrupt."""
