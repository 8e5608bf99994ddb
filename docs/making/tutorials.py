"""Plays the tutorials and writes them as pages, with pictures, and as notebooks: `python docs/making/tutorials.py [NAME ...]`.

A tutorial is a script in cells (jupytext's percent format): an editor opens it as a notebook, and git holds no outputs. Each is
played in a folder of its own under build/docs/played/, where its runs stay. One that was played with the same sources is not
played again.
"""

import base64
import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from tree import ROOT, WRITTEN, on_the_site, tracked

HERE = ROOT / "docs" / "tutorials"
SECONDS = 600
OF = ("cloister/", "fl/", "protocol/", "crypto/", "threat_models/", "examples/quickstart.py", "docs/making/tutorials.py")
"""Whatever a tutorial may run."""
STRICT = """
_shell, _run = get_ipython(), get_ipython().system


def _checked(command):
    _run(command)
    if _shell.user_ns["_exit_code"]:
        raise RuntimeError(f"exit code {_shell.user_ns['_exit_code']} of {command}")


_shell.system = _checked
"""
"""Played before all: a command that fails ends the tutorial, as an exception does."""
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def main(names: list[str]) -> None:
    """Plays all, or those named."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where `cloister` is
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for path in sorted(HERE.glob("*.py")):
        if not names or path.stem in names:
            play(path)


def play(path: Path) -> None:
    """Leaves a page, pictures and a notebook in build/docs/tutorials/. Raises CellExecutionError of a cell that fails."""
    page, folder = WRITTEN / "tutorials" / f"{path.stem}.md", WRITTEN / "played" / path.stem
    stamp = folder.with_suffix(".of")
    of = sources(path)
    if page.is_file() and stamp.is_file() and stamp.read_text() == of:
        print(f"{path.stem}: as it was played before")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, page.with_suffix(".ipynb"))
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    text = "\n\n".join(shown(cell, path.stem, k, page.parent) for k, cell in enumerate(notebook.cells[1:]))
    head, _, rest = text.partition("\n")
    note = f"*Played when this page was made. [The same as a notebook]({path.stem}.ipynb).*"
    page.write_text(on_the_site(f"{head}\n\n{note}\n{rest}\n", f"docs/tutorials/{path.name}"))
    stamp.write_text(of)
    print(f"{path.stem}: played")


def shown(cell: Any, name: str, number: int, out: Path) -> str:
    """A cell in Markdown, with what it printed and drew."""
    if cell.cell_type != "code":
        return str(cell.source)
    language = "sh" if cell.source.startswith("!") else "python"
    source = cell.source.removeprefix("!") if language == "sh" else cell.source
    parts = [f"```{language}\n{source}\n```"]
    for k, output in enumerate(cell.outputs):
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            picture = out / f"{name}-{number}-{k}.png"
            picture.write_bytes(base64.b64decode(data["image/png"]))
            parts.append(f"![What this cell draws]({picture.name})")
        elif "text/html" in data:
            parts.append(f'<div class="output" markdown="0">\n{without_blank_lines(data["text/html"])}\n</div>')
        elif text := plain(data["text/plain"]):
            parts.append(f"```{{.text .output}}\n{text}\n```")
    return "\n\n".join(parts)


def without_blank_lines(page: str) -> str:
    """So that Markdown takes it as one block; styles of a data frame stay out."""
    page = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    return "\n".join(line.strip() for line in page.splitlines() if line.strip())


def plain(text: str) -> str:
    """Without colours, and of a line that was written over what stood there last."""
    lines = (line.rstrip().rsplit("\r", 1)[-1] for line in COLOURS.sub("", text).split("\n"))
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def sources(path: Path) -> str:
    """A digest of the tutorial and of all that it may run."""
    digest = hashlib.sha256()
    for name in tracked():
        if name.startswith(OF) or name == path.relative_to(ROOT).as_posix():
            digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
