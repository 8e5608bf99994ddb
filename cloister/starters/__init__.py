"""What `cloister new` writes: scenarios with comments, to begin from."""
