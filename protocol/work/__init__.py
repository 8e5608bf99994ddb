"""Clients are given tasks, do them, and say or send what they have. Spec: specs/uploads.md."""
