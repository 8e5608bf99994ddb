"""Links between processes: streams that carry words and answers, in bounded pieces."""
