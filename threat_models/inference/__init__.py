"""Inference attacks: what an adversary tells of clients' data and updates from what it received, and how well."""
