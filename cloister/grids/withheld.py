"""Sums that a protection withheld in runs of a grid: in how many rounds, why at first, and what may help."""

from collections.abc import Iterable, Sequence

from ..fl.runs.results_folder import Row

LATER = " A model whose slot stayed shut is as it was, and clients may go by others for good."


def withheld_words(first: str, of: Iterable[tuple[str, Sequence[Row], int]]) -> list[str]:
    """A paragraph, or nothing where none was. first: how it begins. of: names of what was played, with its lines, one a seed, of
    so many rounds. Runs in which nothing was summed at all are left out.
    """
    said, ways, of_slots = [], dict[str, None](), False
    for name, lines, rounds in of:
        rows = [row for row in lines if row.get("first_withheld") and not row.get("nothing_summed")]
        if not rows:
            continue
        one, counts = rows[0]["first_withheld"], [row["withheld"] for row in rows]
        least = f"{min(counts)} to " if min(counts) < max(counts) else ""
        seeds = f"seed{'s' * (len(rows) != 1)} {', '.join(str(row['seed']) for row in rows)}"
        same = all(row["first_withheld"] == one for row in rows)
        where = f"round {one['round']}" if same else f"round {one['round']} of seed {rows[0]['seed']}"
        why = f"first in {where}{', of a slot' if one['slot'] else ''}: {one['reason']}"
        said.append(f"{name} in {least}{max(counts)} of {rounds} rounds ({seeds}; {why})")
        ways |= dict.fromkeys(row["first_withheld"]["may_help"] for row in rows)
        of_slots |= any(row["first_withheld"]["slot"] for row in rows)
    return [f"{first}: {'; '.join(said)}.{LATER * of_slots} What may help: {'; '.join(ways)}."] if said else []
