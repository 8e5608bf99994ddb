"""Whether two machines compute the same way."""

from importlib.metadata import version

import numpy as np
import torch


def check_same(elsewhere: dict[str, str]) -> None:
    """Raises ValueError where a worker has other versions of what computes: its results would not be ours."""
    ours = versions()
    if differing := [name for name in ours if ours[name] != elsewhere.get(name)]:
        name = differing[0]
        raise ValueError(
            f"a worker of the cluster has {name} {elsewhere.get(name)}, and this machine {ours[name]}:"
            " install the same everywhere"
        )


def versions() -> dict[str, str]:
    """Of what computes."""
    return {"cloister": version("cloister"), "torch": torch.__version__, "numpy": np.__version__}
