"""Ledgers and accountants: what noisy releases cost together."""
