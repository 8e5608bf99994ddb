"""Where clients' local training is computed, if not in this process."""
