"""A search for the cheapest break of a defence: over attacks, their numbers, schedules, votes, layers and members.

The space is made of the attacks' own dataclass fields (`fields`, `space`); one play of a point of it is a run (`play`); the
plan (`plan`) decides what is played next, and is a pure function of the lines that are there, so that a search that was
killed goes on as if it had not been. Whoever drives it plays the runs: `cloister attack` does, in worker processes.
"""
