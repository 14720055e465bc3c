"""The command line: parse, call, print. Imports are inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import io
import json
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ltgcd.cli import bench, check, common, data, discovery, doctor, output, refine, review, run
from ltgcd.common.processes import is_first_process

# The commands in the order in which people need them.
GROUPS = {
    "Begin": ("demo", "doctor"),
    "Use it": ("discover", "review", "relabel", "refine", "update", "export", "report", "check"),
    "Step by step": ("inspect", "embed", "estimate-k", "train", "predict", "evaluate"),
    "Research": ("datasets", "split", "bench"),
}


LONGEST = 200  # characters of a command's line in the help page: its first sentence, wrapped and not cut


class Grouped(TyperGroup):
    """A help page that lists the commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's own types
        """A section for each group, with a line for each command."""
        for title, names in GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, one.get_short_help_str(LONGEST)) for name, one in commands if one is not None]
                )


app = typer.Typer(
    name="ltgcd",
    cls=Grouped,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the categories nobody labelled: how many classes are there, and which item belongs to which?",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"ltgcd {version('ltgcd')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command()(run.demo)
app.command()(discovery.discover)
app.add_typer(data.datasets_app, name="datasets")
app.command()(data.split)
app.command()(data.inspect)
app.command()(data.embed)
app.command("estimate-k")(run.estimate_k)
app.command(cls=common.NamesMethods)(run.train)
app.command()(discovery.predict)
app.command()(discovery.update)
app.command()(review.review)
app.command()(refine.relabel)
app.command()(refine.refine)
app.command()(run.evaluate)
app.command("report")(output.report_page)
app.command()(output.export)
app.command()(check.check)
app.command()(doctor.doctor)
app.command()(bench.bench)


def main() -> NoReturn:
    """Entry point of the ``ltgcd`` command. With ``--json`` a wrong option, too, is one object on stdout."""
    if not is_first_process():
        sys.stdout = io.StringIO()  # of several processes that torchrun started, the first one speaks
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    if "" in sys.argv[1:]:
        # An empty path is taken for the current folder: refused, for it comes from a variable that is not set.
        sentence = 'An argument is empty (""); is a variable of the shell not set?'
        if "--json" in sys.argv:
            print(json.dumps({"error": sentence}))
        print(f"Error: {sentence}", file=sys.stderr)
        raise SystemExit(2)
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:  # while something was imported: nothing had begun
        print("Stopped.", file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:
        # Typer brings a click of its own in some versions, so its errors are known by what they can do.
        refusal: Any = error
        if not hasattr(refusal, "format_message"):
            raise
        refusal.show()
        if "--json" in sys.argv:
            print(json.dumps({"error": refusal.format_message()}))
        raise SystemExit(refusal.exit_code) from None
    raise SystemExit(code if isinstance(code, int) else 0)
