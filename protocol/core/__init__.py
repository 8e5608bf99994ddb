"""What every protocol is made of: sessions and errors."""
