"""The reference of the settings as Markdown, made from ``Config`` itself.

``python -m millstream.cli.config_reference > docs/configuration.md`` writes the page; a test finds out when that was
forgotten.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

import click

from millstream import config

INTRODUCTION = """\
# Configuration

Settings belong to an app: `App("rides", config=Config(partitions=8))`. This page is made from the class
(`python -m millstream.cli.config_reference > docs/configuration.md`).

| Setting | Type | Default | Meaning |
|---|---|---|---|
"""

SURROUNDINGS = """
Two more are arguments of `App` and can be given from outside, by `--broker` and `--data-dir` of every command or in the
environment; what the program says wins over the environment, and what the command says over both.

| Variable | Meaning |
|---|---|
| `MILLSTREAM_BROKER` | the broker, for example `kafka://127.0.0.1:9092`; the embedded log if it is not set |
| `MILLSTREAM_DATA_DIR` | where the embedded log and all state lie; `./millstream-data` if it is not set |
"""


def markdown() -> str:
    """Return the whole page."""
    (defined,) = ast.parse(inspect.getsource(config.Config)).body
    assert isinstance(defined, ast.ClassDef)
    rows: list[str] = []
    for field, meaning in pairwise(defined.body):
        if isinstance(field, ast.AnnAssign) and isinstance(meaning, ast.Expr):
            assert isinstance(meaning.value, ast.Constant)
            name, kind = ast.unparse(field.target), ast.unparse(field.annotation).replace("|", "\\|")
            default = "" if field.value is None else ast.unparse(field.value)
            rows.append(f"| `{name}` | `{kind}` | `{default}` | {' '.join(str(meaning.value.value).split())} |")
    return INTRODUCTION + "\n".join(rows) + "\n" + SURROUNDINGS


if __name__ == "__main__":
    click.echo(markdown(), nl=False)
