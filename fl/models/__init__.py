"""Models, and models as vectors."""
