"""Who is corrupt, what they see and what they do: poisoning adversaries, their knowledge, and what they achieved."""
