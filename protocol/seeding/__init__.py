"""The seed exchange by parties: its messages, and the roles of a client and of the server. In one process: group_seed.py."""
