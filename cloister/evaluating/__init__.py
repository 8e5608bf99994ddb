"""The report of an evaluation, and playing one."""
