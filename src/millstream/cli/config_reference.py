"""Generate the configuration reference, docs/configuration.md, from the class ``Config``.

``python -m millstream.cli.config_reference > docs/configuration.md`` writes the page; a test fails if it is outdated.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

import click

from millstream import config

INTRODUCTION = """\
# Configuration

Settings are passed to the app: `App("rides", config=Config(partitions=8))`. This page is generated from the class
(`python -m millstream.cli.config_reference > docs/configuration.md`).

| Setting | Type | Default | Meaning |
|---|---|---|---|
"""

SURROUNDINGS = """
The broker and the data directory are arguments of `App`. They can also be set with the options `--broker` and
`--data-dir` of every command, or in the environment. The options override the program, and the program overrides the
environment.

| Variable | Meaning |
|---|---|
| `MILLSTREAM_BROKER` | the broker, for example `kafka://127.0.0.1:9092`; the embedded log if not set |
| `MILLSTREAM_MASTER` | the Spark master, for example `spark://head:7077`, of apps without `Config(master=)` |
| `MILLSTREAM_DATA_DIR` | the directory of the embedded log and of all state; `./millstream-data` if not set |
"""


def markdown() -> str:
    """Return the complete page."""
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
