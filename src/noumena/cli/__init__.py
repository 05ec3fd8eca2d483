"""The command ``noumena``. Exit codes: 0 done, 1 the work did not come to its end, 2 the input cannot be used."""

from __future__ import annotations

import os
import sys
import warnings

import typer

from noumena.checks import DivergenceError, InputError
from noumena.cli import auditing, certifying, deconfounding, discovering, learning, scoring, studying
from noumena.cli.options import say
from noumena.cli.versions import options

app = typer.Typer(
    name="noumena",
    help="Learn the hidden variables behind data, and know what about them can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is drawn in half the time
)

app.callback()(options)
for verb in (
    learning.demo,
    discovering.discover,
    learning.fit,
    learning.report,
    scoring.score,
    certifying.certify,
    auditing.audit,
    deconfounding.deconfound,
):
    app.command()(verb)
app.add_typer(studying.study, name="study")


def main() -> None:
    """Run the command; a user's mistake is one sentence on standard error and exit code 2."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.showwarning = lambda message, *_, **__: say(f"noumena: {message}")
    try:
        app()
    except InputError as error:
        say(f"noumena: {error}")
        sys.exit(2)
    except DivergenceError as error:
        say(f"noumena: {error}")
        sys.exit(1)
