"""The project as a package: the list of packages is complete, the wheel and the sdist hold everything, names are exported."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import cloister

pytestmark = pytest.mark.sweeps

ROOT = Path(__file__).parents[1]
FOLDERS = ("cloister", "crypto", "protocol", "fl", "threat_models")
DATA = {".j2", ".cddl", ".md", ".typed"}


def source_files() -> set[str]:
    """Every file that an installed Cloister needs, by its path under the import name."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT)
            linked = folder == "cloister" and len(relative.parts) > 1 and relative.parts[1] in FOLDERS
            if path.is_file() and not linked and (path.suffix in DATA | {".py"} or path.name == "py.typed"):
                found.add(str(relative) if folder == "cloister" else f"cloister/{relative}")
    return found | {f"cloister/examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split("\0"):  # what is not committed yet is tested too
        if name and os.path.lexists(ROOT / name):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.mark.long
def test_the_wheel_holds_every_package_and_its_data(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("cloister/")}
    assert inside == source_files()


def test_the_sdist_holds_every_source(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        inside = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    for name in source_files():
        plain = name.removeprefix("cloister/") if name.split("/")[1] in (*FOLDERS, "examples") else name
        assert plain in inside or name in inside, name


@pytest.mark.long
def test_an_installed_wheel_runs_without_the_source_tree(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import cloister, cloister.cli, cloister.reporting.report; print(cloister.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout


@pytest.mark.slow
@pytest.mark.trains
def test_from_the_wheel_alone_in_an_empty_folder(built: Path, tmp_path: Path) -> None:
    """New, run, evaluate, audit, report, rerun: nothing of the source tree is there."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()

    def cloister(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cloister", *words],
            cwd=tmp_path / "empty",
            env={"PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "evaluate_digits" in cloister("new", "--list")
    cloister("new")
    cloister("new", "evaluate")
    cloister("run", "quickstart.py", "--rounds", "2", "--out", "one")
    cloister("run", "cloister:quickstart", "--rounds", "2", "--out", "two")
    cloister("evaluate", "evaluate.py", "--seeds", "0", "--set", "rounds=2", "--out", "three", "--workers", "1")
    for folder in ("one", "two", "three"):
        (tmp_path / "empty" / folder / "report.html").unlink()
        cloister("report", folder)
        assert (tmp_path / "empty" / folder / "report.html").is_file()
    assert "the same" in cloister("rerun", "one", "--out", "again")
    assert "the same" in cloister("rerun", "two", "--out", "and again")


def test_the_list_of_packages_is_complete() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    own = [p.parent.name for p in (ROOT / "cloister").glob("*/__init__.py") if not p.parent.is_symlink()]
    there = {"cloister", "cloister.examples", *(f"cloister.{name}" for name in own)}
    for folder in FOLDERS[1:]:
        there |= {"cloister." + ".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / folder).rglob("__init__.py")}
    assert listed == there


def test_exported_names_exist_and_the_version_is_one() -> None:
    assert all(hasattr(cloister, name) for name in cloister.__all__)
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == cloister.__version__


def test_torch_is_pinned_once() -> None:
    assert re.findall(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE) == ["2.13.0"]


def test_links_in_the_face_are_relative() -> None:
    for folder in FOLDERS[1:]:
        assert (ROOT / "cloister" / folder).readlink() == Path("..") / folder
