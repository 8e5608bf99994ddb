"""What the parties beside the coordinator need of a scenario's file, its protection, read by a process that ends with that.

Whatever else the file brings, torch above all, is gone with it: a second server or a dealer computes with none of it, for days.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from .errors_in_one_line import Failure, one_line_errors

if TYPE_CHECKING:
    from .protocol.two_servers.protection import TwoServer


def two_servers_of(file: str, settings: Sequence[str]) -> "TwoServer":
    """The protection of the scenario in FILE[:NAME] with these settings, each PATH=VALUE. Raises ValueError of one line."""
    from .protocol.two_servers.protection import TwoServer

    command = [sys.executable, "-P", "-m", __name__, file, *settings]  # -P: nothing in the working directory passes for a library
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)  # noqa: S603
    if done.returncode:
        raise ValueError(f"{file} could not be read: the process that did ended with {done.returncode}")
    found = json.loads(done.stdout)
    if "wrong" in found:
        raise ValueError(found["wrong"])
    return TwoServer(**found["fields"])


def _read(file: str, *settings: str) -> dict[str, object]:
    """In that process. What the file prints goes to stderr."""
    try:
        with redirect_stdout(sys.stderr), one_line_errors():
            from .protocol.two_servers.protection import TwoServer
            from .scenario_file import load, with_settings

            how = with_settings(load(file), settings).protection
            if not isinstance(how, TwoServer):
                raise ValueError(f"{file} is not under TwoServer: it has no second server, and no dealer")
            return {"fields": asdict(how)}
    except Failure as failure:
        return {"wrong": str(failure)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(*sys.argv[1:])))
