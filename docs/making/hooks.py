"""What mkdocs is told beside mkdocs.yml: which files of the repository are pages, and which pages are generated."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import commands
import names
import tables
import tree

TUTORIALS = ("audit", "evaluate", "deploy")
REPORTS = ("run", "evaluate", "compare", "audit", "client")
_ORIGIN: dict[str, str] = {}
"""By page: the file of the repository that it is made of."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """All that is on the site: of docs/ itself nothing is taken but by `tree.places`, of the theme everything."""
    made = Files([file for file in files if not Path(file.abs_src_path or "/").is_relative_to(config.docs_dir)])
    _ORIGIN.clear()
    for name, place in tree.places().items():
        text = None
        if name in tree.matching(tree.PLAYED):
            continue
        if name in tree.matching(tree.PAGES):
            text = (tree.ROOT / name).read_text()
            _ORIGIN[place] = name
        elif place.endswith(".md"):
            text = source_page(name)
        if text is None:
            made.append(File.generated(config, place, abs_src_path=str(tree.ROOT / name)))
        else:
            made.append(File.generated(config, place, content=text))
    for place, text in (*names.pages(), ("reference/commands.md", commands.page())):
        made.append(File.generated(config, place, content=text))
    for file in written():
        place = file.relative_to(tree.WRITTEN).as_posix()
        made.append(File.generated(config, place, abs_src_path=str(file)))
    return made


def written() -> list[Path]:
    """Tutorials and reports, as `docs/making/tutorials.py` and `gallery.py` left them."""
    needed = [tree.WRITTEN / "tutorials" / f"{name}.md" for name in TUTORIALS]
    needed += [tree.WRITTEN / "gallery" / f"{name}.html" for name in REPORTS]
    if missing := [str(path) for path in needed if not path.is_file()]:
        raise PluginError(f"there is no {missing[0]}; `make docs` plays the tutorials first")
    folders = (tree.WRITTEN / "tutorials", tree.WRITTEN / "gallery")
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def source_page(name: str) -> str:
    """A file of the repository, to read."""
    kind = {".py": "python", ".yaml": "yaml", ".service": "ini"}.get(Path(name).suffix, "text")
    text = (tree.ROOT / name).read_text().rstrip("\n")
    return f"---\nsearch:\n  exclude: true\n---\n# {name}\n\n````{kind}\n{text}\n````\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository's pages, and what is put in the place of <!-- table: NAME -->."""
    name = _ORIGIN.get(page.file.src_uri)
    return markdown if name is None else tree.on_the_site(tables.filled(markdown), name)
