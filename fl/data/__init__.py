"""Data sets, and how their examples come to clients."""
