"""The command line in this process: what `cloister WORDS` does, without the seconds that a process takes to begin."""

import contextlib
import io
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from cloister import cli


def commanded(folder: Path, *words: str) -> CompletedProcess[str]:
    """`cloister WORDS` with `folder` as the working folder: exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        patch.object(sys, "argv", ["cloister", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as caught,
    ):
        cli.main()
    return CompletedProcess(words, int(caught.value.code or 0), out.getvalue(), err.getvalue())
