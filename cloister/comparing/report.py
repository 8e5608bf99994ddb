"""What a comparison leaves to be read: one page, and its table as Markdown and CSV, made from its folder alone."""

from pathlib import Path

from ..fl.runs.results_folder import write
from ..reporting.page import environment, write_page
from ..reporting.run_data import flat
from .data import Found, read_comparison
from .notes import command, fits, fits_words, footnotes, over_words
from .panels import blocks, learned, matrices, overview, searches, tiles
from .texts import csv_text, markdown
from .verdict import sentences


def write_comparison_report(folder: Path) -> Path:
    """Writes `folder`/table.md, table.csv and report.html, finished or not, and returns the path of the last."""
    found = read_comparison(folder)
    write(folder / "table.md", markdown(found).encode())
    write(folder / "table.csv", csv_text(found).encode())
    return write_page(folder, render(found))


def render(found: Found) -> str:
    """The page as text. Everything that comes from the comparison is escaped by the template."""
    about = found.about
    return (
        environment(Path(__file__).parent)
        .get_template("compare.html.j2")
        .render(
            kind="comparison",
            found=found,
            title=str(about["name"]),
            said=sentences(found),
            fitting=fits_words(found, fits(found)),
            tiles=tiles(found),
            overview=overview(found),
            over=over_words(found),
            blocks=blocks(found),
            matrices=matrices(found),
            learned=learned(found),
            searches=searches(found),
            footnotes=footnotes(found),
            command=command(found),
            data=[*flat(about["data"])],
            methods=[*flat(about["methods"])],
            attacks=[*flat(about["attacks"])],
            machine=[*flat(about.get("versions", {})), *flat(about.get("machine", {}))],
        )
    )
