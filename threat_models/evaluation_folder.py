"""The folder of an evaluation: its cells, and the attack-free runs that they are compared with.

`clean/KEY.safetensors` holds an attack-free run's accuracies and models; its line holds the hash.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from ..fl.runs.results_folder import ResultsFolder, write
from .trial import Clean


class EvaluationFolder(ResultsFolder):
    """The files of one evaluation, or of another kind of grid whose runs are compared with such ones."""

    def __init__(self, path: Path, kind: str = "evaluation") -> None:
        super().__init__(path, kind)

    def write_clean(self, key: str, clean: Clean) -> str:
        """Store an attack-free run; the hash of its file."""
        vectors = list({id(v): v for v in clean.models.values()}.values())
        place = {id(v): k for k, v in enumerate(vectors)}
        of = [place[id(clean.models[i])] if i in clean.models else -1 for i in clean.clients]
        arrays = {f"model {k}": np.ascontiguousarray(v) for k, v in enumerate(vectors)}
        arrays |= {"clients": np.array(clean.clients, dtype=np.int64), "model of": np.array(of, dtype=np.int64)}
        packed = save({**arrays, "accuracy": np.ascontiguousarray(clean.accuracy, dtype=np.float64)})
        (self.path / "clean").mkdir(exist_ok=True)
        write(self.path / "clean" / f"{key}.safetensors", packed)
        return hashlib.sha256(packed).hexdigest()

    def read_clean(self, key: str, digest: str) -> Clean | None:
        """An attack-free run, or None where its file is missing or is not what was written."""
        try:
            packed = (self.path / "clean" / f"{key}.safetensors").read_bytes()
        except OSError:
            return None
        if hashlib.sha256(packed).hexdigest() != digest:
            return None
        arrays = load(packed)
        clients = tuple(int(i) for i in arrays["clients"])
        models = {i: arrays[f"model {k}"] for i, k in zip(clients, arrays["model of"].tolist(), strict=True) if k >= 0}
        return Clean(clients, arrays["accuracy"], models)
