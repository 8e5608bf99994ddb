"""Runs: scenarios, simulations, their folders, checkpoints and figures of merit."""
