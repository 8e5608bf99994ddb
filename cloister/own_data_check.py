"""`cloister join --check`: one's own data, and whether they fit the scenario, before anything is connected."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .fl.data.looking import Column, Look, look
from .fl.data.spelling import check_spelling

SHOWN = 8
"""Columns, labels and sizes that are named."""
Line = tuple[str, str]


def seen(data: Path, label: str | None) -> Iterator[Line]:
    """What is in them, as (name, words). label: the column of labels that was agreed, or None. Raises ValueError."""
    found = look(data, label)
    if not found.label:
        sizes = [f"{wide} x {high} ({count})" for (wide, high), count in found.sizes.items()]
        yield "images", f"{found.rows} of {len(found.labels)} labels, {_named(sizes)}"
        yield "labels", _counted(found)
        if found.unreadable:
            yield "not read", f"{found.unreadable} files are no image"
        return
    yield "rows", str(found.rows)
    names = _named([of.name for of in found.columns])
    yield "columns", f"{len(found.columns)} inputs ({names}), and {found.label!r} to be learned"
    if label is None and found.label != "label":
        yield "", f"{found.label!r} is taken for the label, as the last column: a scenario says which it is"
    yield "labels", _counted(found)
    try:
        check_spelling(data.name, found.labels)
    except ValueError as error:
        yield "spelling", str(error)
    unlabelled = [f"{found.label} ({found.labels['']})"] if found.labels.get("") else []
    yield "missing", ", ".join([*unlabelled, *filter(None, [_of(found.columns, "missing")])]) or "no value"
    if codes := [f"{of.name} ({code:g})" for of in found.columns if (code := of.code)]:
        yield "codes", f"{_named(codes)}: does that say that a value is missing? It would be learned from as a number"
    if others := _of(found.columns, "others"):
        yield "no numbers", others
    if found.rows > 1 and (constant := [of.name for of in found.columns if of.constant]):
        yield "constant", f"{_named(constant)}: the same in every row, of which nothing can be learned"
    if found.ragged:
        yield "ragged", f"{found.ragged} rows have another number of cells than the first line"


def fits(
    scenario: Any, data: Path | None, client: int | None, datasets: Path | None, listed: int | None = None
) -> Iterator[Line]:
    """What joining would come to, as (name, words). Raises ValueError of one line where it would come to nothing. listed: clients
    in the directory of its keys; None without keys.

    Whatever a client makes of a coordinator's first words it makes here too, of the words that this scenario's coordinator has.
    """
    from .fl.data.agreed import agreed_on
    from .fl.data.own import TableSchema
    from .fl.models.fit import needs_two
    from .fl.models.vector import dimension
    from .fl.runs.feasibility import doubts, fewest_in_a_sum
    from .fl.runs.greeting import Greeting, maker_of, own_parties
    from .fl.runs.hosts import OF_NUMBERS
    from .fl.runs.listening import greeting_of
    from .fl.runs.outweighing import least_of_others, least_share
    from .fl.runs.parties import Parties
    from .fl.runs.serving import check_served
    from .fl.runs.to_compare import compared_by
    from .fl.runs.trial import tried
    from .protocol.view.protection import as_written

    check_served(scenario)
    maker_of(scenario.protection)
    agreed = Parties(scenario, datasets, here=())
    if next(iter(agreed.population.clients.values())).test.y.is_floating_point():
        raise ValueError(OF_NUMBERS)
    clients = agreed.setup.clients
    mine = clients[0] if client is None else client
    if mine not in clients:
        raise ValueError(f"the scenario has no client {mine}; it has {clients[0]} to {clients[-1]}")
    found = own_parties(scenario, Greeting.of(greeting_of(agreed, bytes(16))(mine)), data, datasets)
    own = found.population.clients[mine]
    records, batch = len(own.train), scenario.training.batch or len(own.train)
    shape = " x ".join(map(str, found.population.shape))
    yield "scenario", f"{scenario.name}: {type(scenario.algorithm).__name__} with {len(clients)} clients"
    yield "protection", as_written(scenario.protection)
    if least := fewest_in_a_sum(scenario):
        spare = len(clients) - least
        away = f"{spare} may be away" if spare > 0 else "none may be away" if spare == 0 else "which are more than there are"
        alike = " and all weigh the same" if least_share(scenario) else ""
        yield "sums", f"of {least} clients or more that are there; {away} while there is one cluster{alike}"
    if share := least_share(scenario):
        others = least_of_others(scenario, len(clients), records)
        yield "weights", _by_samples(others, share, len(clients), records, scenario.protection)
    yield "model", f"{dimension(found.module):,} parameters, inputs of {shape}, {found.population.classes} classes"
    if needs_two(found.module, own.train.x):
        yield (
            "predicts",
            "only for many records together, whose means BatchNorm takes; for one alone: LayerNorm, or columns scaled by agreed"
            " numbers",
        )
    if (table := agreed_on(scenario.data)) is not None:
        present = {int(code) for part in (own.train, own.test) for code in part.y.tolist()}
        lacking = [kind for code, kind in enumerate(table.kinds) if code not in present]
        of = f"columns {_named(list(table.columns))}" if isinstance(table, TableSchema) else f"images of {shape}"
        yield "agreed", f"labels {', '.join(table.kinds)}; {of}"
        if lacking and data is not None:
            yield "not here", f"no record of {', '.join(lacking)}: fine, if that is so"
    if listed not in (None, len(clients)):
        yield (
            "note",
            f"the keys' directory lists {listed} clients, and the scenario has {len(clients)}: they may be of another run",
        )
    for words in (*doubts(scenario, len(clients), {}), *tried(found, mine)):
        yield "note", words
    last = records % batch or batch
    batches = f"in batches of {batch}{f', the last of {last}' if last != batch else ''}" if records > batch else "in one batch"
    yield "train on", f"{records} records, {batches}"
    if words := compared_by(found, mine):
        yield "compared", words
    yield "held out", f"{len(own.test)} records, to score models by"


def _by_samples(others: int | None, share: int, clients: int, records: int, protection: Any) -> str:
    """What a client can know of sums that count samples. others: records that each of them needs, if any number will do."""
    of = f"sums count samples: one in which a client has more than 1/{share} of the squares of all counts is withheld, and a"
    if others is None:
        lower = "lower protection.corrupt, or" if getattr(protection, "corrupt", 0) else "lower protection.floor, or"
        most = getattr(protection, "max_samples", records)
        raised = f"raise protection.max_samples, {most:,} here, or" if records > most else lower
        will = f"with this one's {records:,} that is so whatever the others have: {raised}"
    else:
        where = f"where the others have fewer than {others:,} each"
        will = f"that is so of all {clients} with this one's {records:,} {where}: compare, or"
    return f"{of} run without a sum ends by itself; {will} agree on algorithm.by_samples=False"


def label_of(scenario: Any) -> str | None:
    """The column of labels that a scenario agrees on, where it does."""
    from .fl.data.agreed import agreed_on
    from .fl.data.own import TableSchema

    table = agreed_on(scenario.data)
    return table.label if isinstance(table, TableSchema) else None


def _counted(found: Look) -> str:
    if len(found.labels) > 4 * SHOWN:
        return f"{len(found.labels)} different ones: are these numbers, or is it the wrong column?"
    return ", ".join(f"{word or '(empty)'} ({count})" for word, count in found.labels.items())


def _of(columns: tuple[Column, ...], what: str) -> str:
    return _named([f"{of.name} ({getattr(of, what)})" for of in columns if getattr(of, what)])


def _named(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
