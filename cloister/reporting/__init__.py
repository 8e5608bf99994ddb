"""The report of a run: its folder read, and its panels and figures."""
