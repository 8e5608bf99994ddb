"""How a run is repeated, as its report says it: the same words as `cloister rerun`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .run_data import Run

DRAWN = (
    "a module's weights are drawn wherever the file is read, so it begins with another model each time, unless the file itself"
    " sets them: let model be a function of shape and classes"
)

ENCRYPTED = "Encrypted"
CKKS_DRAWS = (
    "Under Encrypted no run comes out the same bit for bit: TenSEAL draws the noise of every ciphertext anew, which changes"
    " sums in their seventh digit, and the bytes that are sent; later rounds may carry that on."
)


@dataclass(frozen=True, slots=True)
class Repeat:
    """words: before the commands. facts: what has to be the same, as (name, value)."""

    words: str
    commands: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def how_to_repeat(run: Run) -> Repeat | None:
    """None for a run that does not say what it is a run of."""
    origin = run.origin
    if not origin:
        return None
    data, commit = str(origin.get("data_sha256") or "")[:16], origin.get("commit") or "an installed version, see below"
    facts = (("commit of Cloister", str(commit)), ("data, SHA-256", f"{data}..."))
    if origin.get("served"):
        words = (
            "It cannot be repeated from here: its clients were processes of their own, and trained on data that stayed with them."
            " The scenario can be served again, with the same clients, or simulated on data that is here; neither is this run."
        )
        return Repeat(words, (), ())
    folder = shlex.quote(run.path)
    if not isinstance(origin.get("file"), str):
        words = "It was played from Python, which has its scenario. Play it there again, and compare the two run folders:"
        return Repeat(words, ("cloister.run(scenario)", f"cloister rerun {folder} --against OTHER_FOLDER"), facts)
    settings = [word for setting in origin.get("settings") or () for word in ("--set", str(setting))]
    words = (
        "The first command plays it again from this folder's own record, and says whether it came out the same; the second plays"
        " the file as it is by now:"
    )
    if run.summary.get("protection") == ENCRYPTED:
        words = f"{CKKS_DRAWS} {words}"
    if is_finished_module(run.scenario):
        words = f"Its model is a finished module: {DRAWN}. {words}"
    return Repeat(words, (f"cloister rerun {folder}", shlex.join(["cloister", "run", origin["file"], *settings])), facts)


def is_finished_module(scenario: Mapping[str, Any]) -> bool:
    """Of a scenario as a run folder has it: whether its model is a module, and no function that makes one."""
    model = scenario.get("model")
    return isinstance(model, Mapping) and "module" in model
