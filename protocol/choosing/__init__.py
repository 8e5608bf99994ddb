"""Clients name the model that serves them best. Spec: specs/choosing.md."""
