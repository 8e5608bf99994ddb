"""The masked sum: its roles, its noise, its slots, and the view `Masked` that answers through it. Spec: specs/masked_sum.md."""
