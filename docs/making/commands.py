"""The page of the command line: every command with its arguments, options and defaults, as the program itself knows them."""

import enum
import re
import typing
from collections.abc import Iterator
from typing import Any

import typer

EXAMPLE = re.compile(r"^(Try|Begin with|Compare):\s+(cloister .*)$", re.MULTILINE)


def page() -> str:
    """Markdown."""
    from cloister import cli

    root: Any = typer.main.get_command(cli.app)
    head = "# Commands\n\n" + _help(root.help) + "\n\n"
    codes = re.search(r"Exit codes: (.*)", " ".join((cli.__doc__ or "").split()))
    text = head + (f"Exit codes: {codes[1]}\n\n" if codes else "")
    commands = list(_all(root, ()))
    text += "| command | |\n| --- | --- |\n"
    text += "".join(f"| [`cloister {' '.join(path)}`](#{_anchor(path)}) | {_first(one.help)} |\n" for path, one in commands)
    return text + "".join(_section(path, one) for path, one in commands)


def _all(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _all(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _anchor(path: tuple[str, ...]) -> str:
    return "-".join(("cloister", *path))


def _section(path: tuple[str, ...], command: Any) -> str:
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and not p.hidden]
    named = " ".join(f"{_metavar(p)}" if p.required else f"[{_metavar(p)}]" for p in arguments)
    usage = " ".join(x for x in ("cloister", *path, named, "[OPTIONS]" if options else "") if x)
    text = f"\n## cloister {' '.join(path)}\n\n```text\n{usage}\n```\n\n{_help(command.help)}\n\n"
    if arguments:
        text += "| argument | |\n| --- | --- |\n" + "".join(f"| `{_metavar(p)}` | {_said(p)} |\n" for p in arguments) + "\n"
    if options:
        text += "| option | |\n| --- | --- |\n" + "".join(f"| {_option(p)} | {_said(p)} |\n" for p in options) + "\n"
    return text


def _help(text: str | None) -> str:
    return EXAMPLE.sub(r"\1:\n\n```sh\n\2\n```", (text or "").strip())


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _kind(parameter: Any) -> Any:
    """The type of a value, without None and list."""
    kind = parameter.type_descriptor.annotation
    while inner := [a for a in typing.get_args(kind) if a is not type(None)]:
        kind = inner[0]
    return kind


def _metavar(parameter: Any) -> str:
    kind = _kind(parameter)
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.opts[0].startswith("-") and isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "[" + "|".join(str(one.value) for one in kind) + "]"
    if not parameter.opts[0].startswith("-"):
        return str(parameter.name).upper().replace("_", "-")
    return {int: "INTEGER", float: "NUMBER", str: "TEXT"}.get(kind, "PATH")


def _option(parameter: Any) -> str:
    names = ", ".join(parameter.opts + parameter.secondary_opts)
    return f"`{names}`" if _kind(parameter) is bool else f"`{names} {_metavar(parameter)}`".replace("|", "\\|")


def _said(parameter: Any) -> str:
    text = " ".join((parameter.help or "").split()).replace("|", "\\|").replace("*", "\\*")
    kind, default = _kind(parameter), parameter.default
    if not parameter.opts[0].startswith("-") and isinstance(kind, type) and issubclass(kind, enum.Enum):
        text += " One of " + ", ".join(f"`{one.value}`" for one in kind) + "."
    if default is None or default is False or default == [] or callable(default) or "efault" in text:
        return text + (" Required." if parameter.required and parameter.opts[0].startswith("-") else "")
    return f"{text} Default: `{getattr(default, 'value', default)}`."
