"""What may watch a run: `cloister.run(..., callbacks=[...])` takes any callable of a round, or one of these.

A `Round` has `round`, `rounds`, `clusters`, `accuracy` and `numbers`, all that is known of the round by name.
"""

from .watchers import MLflow, TensorBoard

__all__ = ["MLflow", "TensorBoard"]
