"""Messages and their one encoding."""
