"""Roles, and what drives them: how parties are carried forward by events.

`in_process.py` carries frames between all parties of a simulation. A client in a process of its own is driven by work/driving.py,
and reached by work/away.py; whoever plays a run tells it a few things that are no messages, where a driver over a network will
need words or a clock of the client's own:
- that time is up for a role (`Deadline`), and that an exchange of a seed begins and is over;
- to train by itself, and to drop what it made so (parts/models.py `train_alone`, parts/handles.py `over`);
- in one process alone, what it will be asked to be compared by, which it knows from `Setup.comparing` elsewhere
  (pairs/comparison.py).
In one process a transform or a sketch is drawn once for all that hold one seed, and equal models are made and held once
(`MadeOnce`, work/maker.py).
"""
