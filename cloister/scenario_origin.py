"""Where a scenario comes from: the text of its file, its name there, and the settings that it was changed by."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fl.runs.scenario import Scenario
from .scenario_file import load_source, with_settings
from .shipped import file_and_name


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a scenario comes from. source: text of its file. name: there; empty for `scenario`. settings: PATH=VALUE."""

    source: str = field(repr=False)
    name: str
    settings: tuple[str, ...]

    @classmethod
    def of(cls, where: str, settings: Sequence[str]) -> "Origin":
        """Of FILE[:NAME], with settings in the order in which they were applied."""
        path, _, name = file_and_name(where)
        return cls(path.read_text(encoding="utf-8"), name, tuple(settings))

    def scenario(self, where: str) -> Scenario:
        """Made anew, which runs the source. where: what errors call it. Raises ValueError of one line."""
        return with_settings(load_source(self.source, self.name, where), self.settings)
