"""The reports of the gallery: those that the tutorials left, and that of a small comparison, which is played here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tree import ROOT, WRITTEN
from tutorials import sources

PLAYED = WRITTEN / "played"
LEFT = {
    "run": "audit/runs/quickstart",
    "audit": "audit/runs/audit",
    "evaluate": "evaluate/runs/evaluation",
    "client": "deploy/client-0",
}
"""By name: the folder with its report."""


def main() -> None:
    """Leaves build/docs/gallery/. Raises FileNotFoundError before the tutorials were played."""
    out = WRITTEN / "gallery"
    out.mkdir(parents=True, exist_ok=True)
    for name, folder in LEFT.items():
        shutil.copyfile(PLAYED / folder / "report.html", out / f"{name}.html")
    shutil.copyfile(compared() / "report.html", out / "compare.html")


def compared() -> Path:
    """The comparison's folder, played anew if something that it may depend on is new."""
    folder, scenario = PLAYED / "compare", Path(__file__).with_name("compared.py")
    stamp, of = PLAYED / "compare.of", sources(scenario)
    if not stamp.is_file() or stamp.read_text() != of:
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "cloister", "compare", str(scenario), "--out", str(folder), "--workers", "1"]
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        stamp.write_text(of)
    return folder


if __name__ == "__main__":
    main()
