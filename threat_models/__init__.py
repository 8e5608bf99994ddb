"""Who is corrupt, what they see and what must still hold. Empty so far: adversaries and executable claims come here."""
