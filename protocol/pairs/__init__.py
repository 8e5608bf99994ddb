"""Pairs of clients compare projected embeddings through a server that cannot read them. Spec: specs/pairs.md."""
