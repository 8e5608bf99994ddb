"""Robust aggregation rules: each declares the least it must see, and most need nothing but a Gram matrix."""
