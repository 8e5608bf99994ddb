"""A whole deployment on simulated time: coordinator, clients, journals, links and the clock, in one process and from one seed.

A `Schedule` says what happens when: connections that break, pieces that are slow or come twice, words that overtake each other,
partitions, crashes of clients at any word or write and of the coordinator at any word, older copies of journals, frames that are
lost, late or replayed, a server that lies and a client that helps it. `play` plays one and says what did not hold; `shrink` finds
the shortest that fails in the same way; `make torture SEEDS=...` plays many. What runs are the protections, their roles, `Linked`
and `Driven` as they are shipped; the link (`link.py`) is a model of `protocol/links`, and keeps its promises.
"""
