"""What `cloister audit` does: play, attack what each party saw, and say which claims stand."""
