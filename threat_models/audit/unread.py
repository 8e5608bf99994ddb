"""Runs whose updates an audit does not read, so that no row of zeros is taken for one of failed attacks."""

from ...protocol.view.functionality import Functionality
from .experiment import Evidence


def unread(evidence: Evidence) -> str:
    """Empty, or why nothing is known here of clients' updates: in truth, in frames, or of the sums that are published."""
    needs = evidence.view.public.algorithm.needs
    if Functionality.SLOTS in needs:
        return "updates that go into slots, and sums of slots, are not read yet"
    if {Functionality.PERSONAL_SUMS, Functionality.FUSION} & needs:
        return "clients go on from models of their own: their updates, and sums for single clients, are not read yet"
    return ""
