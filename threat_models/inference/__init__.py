"""Attacks on what the parties of a protocol really saw: each a plain function of arrays that its adversary has."""
