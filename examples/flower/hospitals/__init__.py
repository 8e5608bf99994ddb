"""Four hospitals in two groups, in a Flower federation."""
