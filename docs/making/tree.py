"""What of the repository is on the site, where, and how links are turned from one to the other.

A file of the repository has the address that it has there; those of docs/ have it without docs/, and README.md is the front page.
So whoever reads the files without the site follows the same links.
"""

import posixpath
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "build" / "docs"
"""Where tutorials and reports are written before the site is made of them."""
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "examples/**.md")
PAGES += ("threat_models/cards/*.md", "protocol/specs/*.md")
"""Pages as they are written in the repository."""
SOURCES = ("examples/**.py", "examples/deployment/*", "Dockerfile", "LICENSE")
SOURCES += ("protocol/wire/messages.cddl",)
"""Files that pages lead to: each becomes a page of its own."""
PLAYED = ("docs/tutorials/*.py",)
"""Tutorials, whose pages are written when they are played."""
PICTURES = ("examples/results/*.png", "docs/assets/*")
_FENCED = re.compile(r"(^ *```.*?^ *```[ \t]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\[[^\]\n]*\]\()([^)\s]+)(\))")
_SPAN = re.compile(r"(?<![\[`\w])`([\w./-]+)`(?![`\]])")
_CLAIM = re.compile(r"\[claim: ([\w.-]+)\]")
_TEST = re.compile(r"\[test: ([\w./-]+)\]")
CLAIMS = "explanation/threat-models.md"
"""The page with every claim, which cards lead to."""
_OUTWARD = re.compile(r"[a-z]+:|#")


@cache
def tracked() -> tuple[str, ...]:
    """All files of the repository, those too that are not committed yet."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()))


def matching(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Files of the repository: * is anything but a slash, ** anything."""
    made = [re.escape(p).replace(r"\*\*", ".*").replace(r"\*", "[^/]*") for p in patterns]
    return tuple(name for name in tracked() if any(re.fullmatch(one, name) for one in made))


@cache
def places() -> dict[str, str]:
    """Of every file that is on the site: where."""
    found = {name: "index.md" if name == "README.md" else name.removeprefix("docs/") for name in matching(PAGES)}
    found |= {name: name.removeprefix("docs/") for name in matching(PICTURES) if name not in found}
    found |= {name: f"{name}.md" for name in matching(SOURCES) if name not in found}
    return found | {name: name.removeprefix("docs/").replace(".py", ".md") for name in matching(PLAYED)}


def on_the_site(text: str, name: str) -> str:
    """A page's text with its links turned to the site's addresses, and with the files that it names in code spans linked."""
    here = posixpath.dirname(places()[name])

    def link(target: str, relative_to: str) -> str | None:
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(relative_to, path))
        if file not in places():
            return None
        return posixpath.relpath(places()[file], here or ".") + (f"#{anchor}" if anchor else "")

    def turned(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if _OUTWARD.match(target):
            return match.group()
        return f"{before}{link(target, posixpath.dirname(name)) or target}{after}"

    def linked(match: re.Match[str]) -> str:
        target = link(match[1], "")
        return f"[`{match[1]}`]({target})" if target is not None and match[1] != name else match.group()

    def backed(part: str) -> str:
        claims = posixpath.relpath(CLAIMS, here or ".")
        return _TEST.sub(r"(test: `\1`)", _CLAIM.sub(rf"(claim: [`\1`]({claims}#\1))", part))

    parts = _FENCED.split(text)
    return "".join(part if k % 2 else backed(_SPAN.sub(linked, _LINK.sub(turned, part))) for k, part in enumerate(parts))
