"""Roles, and what drives them: how parties are carried forward by events.

What a simulation still does for clients outside of events, and a driver over a network will need messages or a client's own code for:
- models and means that clients own are one store for all of them, moved without messages (parts/clients.py, parts/models.py);
- work that was promised for Encrypted slots, and their layout (encrypted/holders.py `agree`); noise and receiver-opened sums are put in
  by closures (masked/member.py `instead`), and privacy ledgers of noisy sums are kept beside the server's (masked/noise.py);
- a transform is drawn, and a mean inverted, once for all (uploaded/uploading.py);
- clients are told by a call, not by a word, that a round or a promise is over (parts/held.py, parts/held_sums.py, masked/masking.py);
- the clients of pairs share one object for their computers (pairs/clients.py);
- one snapshot holds both sides (parts/run.py `Harness`).
"""
