"""Finding groups among clients from what the server saw of their updates."""
