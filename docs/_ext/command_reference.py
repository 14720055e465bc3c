"""A directive that writes the command reference from the command line itself, so that it can't be out of date."""

from __future__ import annotations

import re
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive

from ltgcd.cli import GROUPS, app
from ltgcd.training.methods import method_names


def commands(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """A command and those below it, each with the words that call it."""
    found = [(path, command)]
    for name, part in getattr(command, "commands", {}).items():
        found += commands(part, (*path, name))
    return found


def paragraphs(text: str) -> list[nodes.Node]:
    """A docstring as nodes; what follows a backspace, as click has it, is shown as it is."""
    found: list[nodes.Node] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.lstrip().startswith("\b"):
            lines = [line.strip() for line in part.splitlines()[1:]]
            body = "\n".join(line for line in lines if line != "Examples:")
            found.append(nodes.literal_block(body, body, language="bash"))
        else:
            words = " ".join(part.split())
            found.append(nodes.paragraph(words, words))
    return found


def option_row(parameter: Any, context: Any) -> tuple[str, str]:
    """How an option is typed, and what it does with its default."""
    names = {
        "@TRAINED@": ", ".join(method_names(lambda method: method.trained)),
        "@CLUSTERING@": ", ".join(method_names(lambda method: not method.trained)),
    }
    said = parameter.get_help_record(context)
    left = said[0] if said else parameter.make_metavar(context)
    right = said[1] if said else getattr(parameter, "help", "") or ""
    for mark, text in names.items():
        right = right.replace(mark, text)
    return " ".join(left.split()), " ".join(right.split())


def table(rows: list[tuple[str, str]]) -> nodes.table:
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=30), nodes.colspec(colwidth=70)]
    body = nodes.tbody()
    for left, right in rows:
        typed, told = nodes.entry(), nodes.entry()
        typed += nodes.paragraph("", "", nodes.literal(left, left))
        told += nodes.paragraph(right, right)
        row = nodes.row()
        row += [typed, told]
        body += row
    group += body
    whole = nodes.table(classes=["options"])
    whole += group
    return whole


class CommandReference(Directive):
    """All commands in the groups of the help page, with their words, options and examples."""

    def run(self) -> list[nodes.Node]:
        """The sections."""
        root = typer.main.get_command(app)
        found = []
        for title, names in GROUPS.items():
            group = nodes.section(ids=[nodes.make_id(title)])
            group += nodes.title(title, title)
            for name in names:
                for path, command in commands(root.commands[name], ("ltgcd", name)):  # type: ignore[attr-defined]
                    group += self._section(path, command)
            found.append(group)
        return found

    def _section(self, path: tuple[str, ...], command: Any) -> nodes.section:
        words = " ".join(path)
        section = nodes.section(ids=[nodes.make_id(words)])
        section += nodes.title(words, words)
        context = command.make_context(words, [], resilient_parsing=True)
        section += paragraphs(command.help or "")
        rows = [option_row(one, context) for one in command.params if not getattr(one, "hidden", False)]
        if rows:
            section += table(rows)
        return section


def setup(app: Any) -> dict[str, bool]:
    """Sphinx asks for this name."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True}
