"""Attacks on privacy: from what a corrupt party has to what it should not know. None sees the truth that scores it."""
