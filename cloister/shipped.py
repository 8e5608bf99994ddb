"""The examples that come with Cloister, in a wheel or a source tree: `cloister run cloister:quickstart`."""

import ast
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

SHIPPED = "cloister"
"""In the place of a file: what follows the colon is an example's name."""


def examples_folder() -> Path:
    """Where they are: in the installed package, or beside it in a source tree."""
    here = Path(__file__).parent
    return here / "examples" if (here / "examples").is_dir() else here.parent / "examples"


def example_file(name: str, beside: Iterable[str] = ()) -> Path:
    """The example's file. Raises ValueError where there is none, with what was perhaps meant, also of what is there beside."""
    known = [path.stem for path in examples_folder().glob("*.py")]
    if name not in known:
        close = get_close_matches(name, [*beside, *known], 1)
        meant = f"; did you mean {close[0]!r}" if close else ""
        raise ValueError(f"there is no example {name!r}{meant}; cloister new --list names all of them")
    return examples_folder() / f"{name}.py"


def examples() -> dict[str, str]:
    """What each is about, by name: the first line of its text."""
    return {path.stem: _about(path) for path in sorted(examples_folder().glob("*.py"))}


def imported(name: str) -> list[str]:
    """The other examples that one imports, and those that they import."""
    known, found, todo = {path.stem for path in examples_folder().glob("*.py")}, dict[str, None](), [name]
    while todo:
        for node in ast.walk(ast.parse(example_file(todo.pop()).read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            fresh = [one for one in names if one in known and one != name and one not in found]
            found |= dict.fromkeys(fresh)
            todo += fresh
    return [*found]


def _about(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def file_and_name(where: str) -> tuple[Path, str, str]:
    """Of FILE[:NAME], the file, what it is called, and the name in it, or empty. cloister:EXAMPLE is a file that came with
    Cloister. Raises ValueError for an example that there is not.
    """
    file, _, name = where.partition(":")
    if file != SHIPPED or Path(file).is_file():
        return Path(file), file, name
    example, _, name = name.partition(":")
    return example_file(example), f"{SHIPPED}:{example}", name


def file_there(where: str, wanted: str) -> tuple[Path, str, str]:
    """The same of a file that is there. wanted: what it is to hold, in words. Raises ValueError of one line where none is."""
    path, file, name = file_and_name(where)
    if path.is_dir():
        raise ValueError(f"{file} is a folder; give the path of {wanted}")
    if not path.is_file():
        raise ValueError(f"there is no file {file} in {Path.cwd()}; {_beside(path)}give the path of {wanted}")
    return path, file, name


def _beside(path: Path) -> str:
    """What there is in its folder by a name much like its, as the middle of a sentence; empty where nothing is."""
    home = path.parent
    there = [one.name for one in home.iterdir() if one.suffix == ".py"] if home.is_dir() else []
    close = get_close_matches(path.name, there, 1, 0.75)
    return f"did you mean {home / close[0]}? Or " if close else ""
