"""Attacks on privacy: what an adversary infers from what it was shown, and scores of its guesses against the truth."""
