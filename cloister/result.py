"""What came out of a run, read from its folder: numbers, tables, pictures, and what each party learned."""

import json
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .fl.runs.privacy import headline
from .reporting.headline import IN_CLEAR, corrupt_of, smallest_sum
from .reporting.run_data import Run, read_run
from .summary import summary_rows
from .tables_out import frame_of, write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .reporting.of_client import OfClient


@dataclass(frozen=True, slots=True)
class Result:
    """A run that was played. folder: its own; report.html there is the page about it.

    summary: as summary.json has it; empty of a run that was interrupted.
    """

    folder: Path
    summary: dict[str, Any] = field(repr=False)

    @property
    def ended(self) -> str:
        """Why the run ended before its last round, where nobody stopped it: nothing could be learned any more, for example. Empty
        of one that is over, or that can go on.
        """
        return self.read().ended

    @property
    def accuracy(self) -> float:
        """At the end: mean over clients, of their models on their own test data; NaN where targets are numbers. Other metrics and
        perplexity are in `summary`.
        """
        found = self._over["accuracy_mean"]
        return float("nan") if found is None else float(found)

    @property
    def clusters(self) -> list[list[int]]:
        """Ids of clients, by cluster, at the end."""
        found: list[list[int]] = self._over["clusters"]
        return found

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A row for each client and evaluated round: round, client, cluster, group (None where nobody planted any), accuracy
        (None of numbers), loss, and further metrics by their name.
        """
        run = self.read()
        rows = []
        for line in run.rounds:
            of = {str(i): name for name, members in line.get("clusters", {}).items() for i in members}
            accuracy, further = line.get("accuracy") or {}, line.get("metrics") or {}
            for client, loss in (line.get("loss") or {}).items():
                row = {"round": line["round"], "client": int(client), "cluster": of.get(client), "group": run.groups.get(client)}
                row |= {"accuracy": accuracy.get(client), "loss": loss}
                rows.append(row | {name: values.get(client) for name, values in further.items()})
        return rows

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """A row for each round: clusters, bytes sent and received, seconds, mean and worst accuracy (or None)."""
        kept = ("round", "accuracy_mean", "accuracy_worst", "bytes_up", "bytes_down", "seconds")
        return [{key: line.get(key) for key in kept} | {"clusters": len(line["clusters"])} for line in self.read().rounds]

    @property
    def disclosures(self) -> list[dict[str, Any]]:
        """What each party was told, answer by answer: round, recipient, what, about whom, how many numbers."""
        return [dict(entry) for entry in self.read().answers]

    @property
    def by_client(self) -> list[dict[str, Any]]:
        """A row for each client: cluster, score, smallest sum with it, how far it can be told apart, epsilon."""
        from .reporting.by_client import by_client

        return by_client(self.read())

    def client(self, client: int | str) -> "OfClient":
        """All that the run's record has about one client, by its id or name: print it, or read its `.disclosures`, `.told`,
        `.smallest_sum`, `.meters` and `.epsilon`. Raises ValueError for a client that is none of the run.
        """
        from .reporting.of_client import of_client

        return of_client(self.read(), client)

    @property
    def privacy(self) -> dict[str, Any]:
        """epsilon: by unit, empty where nothing has noise. pieced_together: what a server can make of all answers; empty where it
        sees updates. in_clear: whether the server saw every update, as it is or transformed by a secret of all clients: then
        sums hide nobody. smallest_sum: fewest clients in a sum that anybody was told; None where nobody was, or into slots alone,
        of which nobody is told who is in which. hides_among: the same less the clients that the protection reckons to be corrupt:
        among so many an honest one hides; None where nothing hides it.
        """
        spent = {unit: of for unit, of in self.read().privacy.items() if isinstance(of, dict)}  # of a run that is not over, too
        epsilon, account = self.summary.get("privacy") or headline(spent), self.summary.get("account", {})
        least = smallest_sum(self.read())
        in_clear = str(self.summary.get("protection")) in IN_CLEAR
        hides = None if least is None or in_clear else max(least - corrupt_of(self.read()), 0)
        return {"epsilon": epsilon, "pieced_together": account, "in_clear": in_clear, "smallest_sum": least, "hides_among": hides}

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        from .reporting.report import write_report

        path = self.folder / "report.html"
        return path if path.is_file() else write_report(self.folder)

    def frame(self, rows: str = "metrics") -> Any:
        """`metrics`, `rounds`, `disclosures` or `by_client` as a data frame. Raises ImportError where pandas is not installed."""
        return frame_of(self._chosen(rows))

    def write(self, path: str | Path, rows: str = "metrics") -> Path:
        """`metrics`, `rounds`, `disclosures` or `by_client` as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv.

        Raises ValueError for another, ImportError where pyarrow is needed and not installed.
        """
        return write_rows(self._chosen(rows), path)

    def models(self) -> dict[str, Any]:
        """By cluster the tensors of its model by name, as `load_state_dict` takes them. Raises ValueError for a damaged file."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        found = {}
        for path in sorted((self.folder / "models").glob("*.safetensors")):
            try:
                found[path.stem] = load_file(path)
            except SafetensorError as error:
                raise ValueError(f"{path} is damaged, and no model can be read of it: {error}") from error
        return found

    def plot(self, what: str = "accuracy") -> "Figure":
        """A picture: "accuracy" of every cluster over the rounds, "similarity" of clients at the last split or grouping,
        "traffic", or "leakage": what the server can piece together of single updates. Raises ValueError for another, or where
        the run has none.
        """
        from .plots import picture

        return picture(self.read(), what)

    def _chosen(self, rows: str) -> list[dict[str, Any]]:
        if rows not in ("metrics", "rounds", "disclosures", "by_client"):
            raise ValueError(f"there are metrics, rounds, disclosures and by_client, and no {rows!r}")
        found: list[dict[str, Any]] = getattr(self, rows)
        return found

    def read(self) -> Run:
        """The folder as its report reads it."""
        return read_run(self.folder)

    @property
    def _over(self) -> dict[str, Any]:
        if not self.summary and self.ended:
            raise ValueError(f"the run in {self.folder} ended early: {self.ended}")
        if not self.summary:
            raise ValueError(
                f"the run in {self.folder} is not over; go on with cloister.run(scenario, {str(self.folder)!r}, resume=True)"
            )
        return self.summary

    def __str__(self) -> str:
        if not self.summary:
            return f"run in {self.folder} that ended early: {self.ended}" if self.ended else f"interrupted run in {self.folder}"
        wide = max(len(name) for name, _ in summary_rows(self.summary))
        return (
            "\n".join(f"{name:{wide}}  {words}" for name, words in summary_rows(self.summary))
            + f"\n{'report':{wide}}  {self.report}"
        )

    def _repr_html_(self) -> str:
        if not self.summary:
            return f"<p>{escape(str(self))}</p>"
        head = f"{self.summary['name']}: {self.summary['algorithm']} under {self.summary['protection']}"
        cells = "".join(
            f'<tr><th style="text-align: left; vertical-align: top">{escape(name)}</th>'
            f'<td style="text-align: left">{escape(words)}</td></tr>'
            for name, words in (*summary_rows(self.summary), ("report", str(self.report)))
        )
        return f"<table><caption>{escape(head)}</caption><tbody>{cells}</tbody></table>"


def load(folder: str | Path) -> Result:
    """What came out of the run that this folder holds, whether it is over or not. Raises ValueError where it holds none."""
    path = Path(folder)
    read_run(path)
    summary = path / "summary.json"
    return Result(path, json.loads(summary.read_text()) if summary.is_file() else {})
