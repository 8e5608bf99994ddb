"""Operating a run whose clients are elsewhere: its commands, logs, metrics and terminal view."""
