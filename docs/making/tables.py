"""Tables that a page asks for by <!-- table: NAME -->, made from the code that they are about."""

import re
from collections.abc import Callable

ASKED = re.compile(r"^<!-- table: ([\w -]+) -->$", re.MULTILINE)


def filled(text: str) -> str:
    """The page with its tables. Raises KeyError for one that there is not."""
    return ASKED.sub(lambda match: TABLES[match[1]](), text)


def claims() -> str:
    """Cloister's own claims and the papers', by protocol."""
    from cloister.threat_models.claims import CLAIMS

    parts = []
    for protocol in dict.fromkeys(claim.id.split(".")[0] for claim in CLAIMS):
        own = [claim for claim in CLAIMS if claim.id.split(".")[0] == protocol]
        rows = "".join(f"| `{c.id}`{{ #{c.id} }} | {_cell(c.statement)} | {c.bound:g} | {_cell(c.whose)} |\n" for c in own)
        head = "| claim | what it says | at most | whose |\n| --- | --- | --- | --- |\n"
        parts.append(f"### {protocol.replace('_', ' ')}\n\n{head}{rows}")
    return "\n".join(parts)


def protections() -> str:
    """Who learns what, from the cards."""
    from cloister.threat_models.cards_table import table

    return table()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


TABLES: dict[str, Callable[[], str]] = {"claims": claims, "protections": protections}
