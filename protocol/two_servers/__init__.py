"""Two servers that hold shares and compute sums and inner products, and the view `TwoServer`. Spec: specs/two_servers.md."""
