"""Commands whose help names the type of what an option takes, and none beside a flag, which takes nothing; and who is given a
field of a scenario as an option says how it is set.
"""

from dataclasses import fields
from typing import Any

from typer.core import TyperCommand, TyperGroup

from .fl.other_names import said_otherwise


class Command(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # typer's error of an unknown option has no public name
            wrong = str(getattr(error, "option_name", ""))
            if wrong and any("--set" in param.opts for param in self.get_params(ctx)) and (field := _field(wrong)):
                noted: Any = error
                noted.message += f" (of a scenario: --set {field}=...)"
            raise


class Group(TyperGroup):
    """Several commands under a name."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


def _field(option: str) -> str:
    """The field of a scenario, or of its training, that an option is called like; empty where none is."""
    from .fl.clients.training import Training
    from .fl.runs.scenario import Scenario

    name = option.lstrip("-").replace("-", "_")
    for prefix, of in (("", Scenario), ("training.", Training)):
        known = [field.name for field in fields(of)]
        if found := name if name in known else said_otherwise(name, known):
            return prefix + found
    return ""


def _bare(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
