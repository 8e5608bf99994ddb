"""The masked sum: its roles, its noise, its slots, and the view `Masked` that answers through it. Spec: specs/masked_sum.md.

- What both sides know: protection, known, terms, messages, graph, input, slots, weighing, noise, cohorts, gaussian.
- A client: clients (how it is made), member (its role, with what it puts in: client_inputs), client with client_phases and
  client_shares. What it refuses: terms (`SumPolicy`), joined (which sums), given (what sums of one update show together),
  transcript (what it signed before), spending (what noise has cost it), and `parts/charter.py`, which it agreed to before
  the run.
- The server: server with server_setup, server_phases and server_opening; journal; shape and graph (what it decides).
- The view: view, masking (sessions), sums, weights, slot_sums, noisy_sums; sum plays one session.
"""
