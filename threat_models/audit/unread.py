"""Runs whose updates, or embeddings, an audit does not read: so that no row of zeros is taken for one of failed attacks."""

from ...fl.algorithms.emd_cfl import EMDCFL
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


def uncompared(evidence: Evidence) -> str:
    """Empty, or why clients' embeddings of single records, and what is made of them, are not compared here."""
    algorithm = evidence.view.public.algorithm
    if Functionality.PAIRS not in algorithm.needs:
        return "clients are not compared by embeddings"
    if not isinstance(algorithm, EMDCFL):
        return "clients are compared by what is made of all their records together"
    return ""
