"""What views are made of: each part answers one kind of question."""
