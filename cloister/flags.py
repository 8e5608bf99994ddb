"""Commands whose help names the type of what an option takes, and none beside a flag, which takes nothing."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


class Group(TyperGroup):
    """Several commands under a name."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


def _bare(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
