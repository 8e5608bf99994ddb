"""The folder of an evaluation: its cells, and the attack-free runs that they are compared with.

`clean/KEY.safetensors` holds an attack-free run's accuracies and models; its line holds the hash.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from ..fl.runs.results_folder import ResultsFolder, write
from .trial import Clean

OF = "model of"


class EvaluationFolder(ResultsFolder):
    """The files of one evaluation, or of another kind of grid whose runs are compared with such ones."""

    def __init__(self, path: Path, kind: str = "evaluation") -> None:
        super().__init__(path, kind)

    def write_clean(self, key: str, clean: Clean) -> str:
        """Store an attack-free run; the hash of its file."""
        told = {OF: clean.models, **{f"{OF} after {t}": models for t, models in clean.earlier.items()}}
        vectors = list({id(v): v for models in told.values() for v in models.values()}.values())
        place = {id(v): k for k, v in enumerate(vectors)}
        arrays = {f"model {k}": np.ascontiguousarray(v) for k, v in enumerate(vectors)}
        for name, models in told.items():
            arrays[name] = np.array([place[id(models[i])] if i in models else -1 for i in clean.clients], dtype=np.int64)
        arrays["clients"] = np.array(clean.clients, dtype=np.int64)
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
        told = {
            name.removeprefix(OF): {i: arrays[f"model {k}"] for i, k in zip(clients, of.tolist(), strict=True) if k >= 0}
            for name, of in arrays.items()
            if name.startswith(OF)
        }
        models = told.pop("")
        return Clean(clients, arrays["accuracy"], models, {int(name.split()[-1]): of for name, of in told.items()})
