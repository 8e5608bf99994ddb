"""What every protocol is made of: sessions, errors, and what a link carries."""
