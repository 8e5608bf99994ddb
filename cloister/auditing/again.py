"""An audit played again from its own record, and which of its rows came out the same."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..fl.runs.held_alone import ANOTHER, folder_may_be
from ..fl.runs.results_folder import DATA
from ..grids.watching import folder_for
from ..kept_source import written_again
from ..repeated_words import where_and_what
from .folder import PLAYING
from .new_audit import BUDGETS, play_audit
from .report import whole, write_audit_report

SHOWN = 3
"""Rows that are named."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """same: whether all rows are there and alike, bit for bit. apart: others, in words. different: what is not as it was here, in
    words. rows: how many are alike.
    """

    same: bool
    apart: tuple[str, ...]
    different: tuple[str, ...]
    rows: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def play_again(folder: Path, out: Path | None, data: Path | None) -> Path:
    """The folder of the same audit, which goes on there if it was stopped: of its runs, or of the recorded run, with its parties,
    attacks, seeds and budget. Raises ValueError where the record does not say how it was made, or the recorded run is not there.
    """
    about = audit_in(folder)
    if not isinstance(origin := about.get("origin"), dict):
        raise ValueError(
            f"the audit in {folder} was played from Python, or by an earlier version: play it there again with another out=, and"
            f" compare: cloister rerun {folder} --against OTHER_FOLDER"
        )
    if (budget := about["budget"]["name"]) not in BUDGETS:
        raise ValueError(f"the audit in {folder} had a budget of its own: play it again from Python, and compare by --against")
    into = out or folder_for(str(about["name"]), "audit", resume=False)
    folder_may_be(into, "audit")
    goes_on = (into / PLAYING).is_dir()
    if (into / "audit.json").exists():
        raise ValueError(f"{into} already holds an audit; {ANOTHER}")
    what = f"the audit in {folder}"
    if about.get("recorded"):
        where = str(origin["of"]["file"])
        if not Path(where).is_dir():
            raise ValueError(f"{what} is of the run recorded in {where}, which is not there: put it there, or go to where it is")
    else:
        where = written_again(origin["of"], into, what)
    attacks = [written_again(one, into, what) for one in origin["attacks"]]
    seeds = ",".join(map(str, about["seeds"]))
    into = play_audit(
        where,
        budget,
        into,
        seeds,
        data,
        origin["settings"],
        attacks,
        origin["against"],
        origin=origin,
        resume=goes_on,
        again=folder,
    )
    write_audit_report(into)
    return into


def audit_in(folder: Path) -> Mapping[str, Any]:
    """Raises ValueError for a folder without an audit, or with a damaged one."""
    try:
        text = (folder / "audit.json").read_text(encoding="utf-8")
    except OSError:
        raise ValueError(f"{folder} holds no audit") from None
    with whole(folder):
        return dict(json.loads(text))


def compared(folder: Path, other: Path) -> Repeated:
    """What two folders of audits have in common. Raises ValueError for what is none."""
    abouts = [audit_in(one) for one in (folder, other)]
    with whole(folder):
        first, second = ({(row["observer"], row["experiment"]): row for row in about["rows"]} for about in abouts)
    apart = [f"{who}, {what}" for who, what in {**first, **second} if first.get((who, what)) != second.get((who, what))]
    return Repeated(bool(first) and not apart, tuple(apart), tuple(_different(*abouts)), len({**first, **second}) - len(apart))


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    sources = [(about.get("origin") or {}) for about in (one, other)]
    known = {
        "the data: their checksums differ": (one.get(DATA), other.get(DATA)),
        "the source of its files": tuple([of.get("of"), of.get("attacks")] if of else None for of in sources),
        "versions": (one.get("versions"), other.get("versions")),
        "machine": (one.get("machine"), other.get("machine")),
        "Cloister's commit": (one.get("commit"), other.get("commit")),
    }
    return [words for words, (first, second) in known.items() if first is not None and first != second]


def in_words(found: Repeated, other: Path, played: bool = True) -> list[str]:
    """Lines, the verdict first. played: whether just now."""
    lines = [f"the same, bit for bit: {found.rows} row{'s' * (found.rows != 1)}"]
    if not found.same:
        more = f" and {len(found.apart) - SHOWN} more" if len(found.apart) > SHOWN else ""
        of = found.rows + len(found.apart)
        lines = [f"not the same: of {of} rows {len(found.apart)} came out otherwise ({'; '.join(found.apart[:SHOWN])}{more})"]
    return [*lines, *where_and_what(found.different, found.same, other, played)]
