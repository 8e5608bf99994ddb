"""Federated algorithms, one file each, next to their papers."""
