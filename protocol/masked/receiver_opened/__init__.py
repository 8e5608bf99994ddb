"""Weighted sums that only their receiver can open. Spec: specs/receiver_opened.md."""
