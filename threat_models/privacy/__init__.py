"""Audits of differential privacy: lower bounds on epsilon from what shipped code releases, and faults that they must see."""
