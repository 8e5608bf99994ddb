"""Tries the site that was built: every address leads to a file and a place that is there, and nothing is fetched from elsewhere.

python docs/making/tried.py build/site
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser fetches for, with the attribute that says what."""


class Page(HTMLParser):
    """Addresses of a page: those that it leads to, those that it fetches, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.fetches: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := found.get(key))}
        if tag == "a" and (href := found.get("href")):
            self.leads.append(href)
        if (attribute := FETCHED.get(tag)) and (value := found.get(attribute)):
            (self.leads if found.get("rel") == "canonical" else self.fetches).append(value)


@cache
def page(path: Path) -> Page:
    """What it holds."""
    return Page(path.read_text(encoding="utf-8"))


def faults(site: Path) -> list[str]:
    """A line for every address that leads nowhere, or is fetched from elsewhere."""
    found = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        for address in page(path).fetches:
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                found.append(f"{name} fetches {address}")
        if name.name == "404.html":
            continue
        for address in (*page(path).leads, *page(path).fetches):
            if why := fault(path, address):
                found.append(f"{name}: {address}: {why}")
    for path in sorted(site.rglob("*.css")):
        elsewhere = re.findall(r"url\(['\"]?(https?:[^)'\"]+)", path.read_text())
        found += [f"{path.relative_to(site)} fetches {url}" for url in elsewhere]
    return found


def fault(path: Path, address: str) -> str:
    """Why this address of the page leads nowhere; empty if it does, or leads out of the site."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return "" if parts.scheme in ("https", "data", "mailto", "blob") else "not https"
    if parts.path.startswith("/"):
        return "not relative"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).places | {"__top", ""}:
        return "no such place"
    return ""


if __name__ == "__main__":
    site = Path(sys.argv[1])
    wrong = faults(site)
    print("\n".join(wrong) or f"{len(list(site.rglob('*.html')))} pages, no dead link, nothing fetched from elsewhere")
    sys.exit(bool(wrong))
