"""Clients upload their updates, clear or transformed. Spec: specs/uploads.md."""
