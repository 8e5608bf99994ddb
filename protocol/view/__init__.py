"""What an algorithm may ask, and what it is answered."""
