"""Run SQL on the test driver: rows in, rows out."""

from collections.abc import Callable
from typing import Any

from millstream import App
from millstream.records import Record
from millstream.sql.generate import Generator
from millstream.sql.parser.statements import parse_expression
from millstream.testing import TestDriver

Rows = list[tuple[Any, Any]]


def run(text: str, out: str, inputs: list[tuple[Any, ...]]) -> list[Record[Any, Any]]:
    """Return the records of a topic; inputs are (topic, key, value[, timestamp])."""
    app = App("sql")
    app.sql(text)
    with TestDriver(app, one_stream_time=True) as driver:
        for topic, key, value, *time in inputs:
            driver.topic(topic).pipe(value, key=key, timestamp=time[0] if time else 0)
        return driver.topic(out).read()


def rows(text: str, out: str, inputs: list[tuple[Any, ...]]) -> Rows:
    """Return keys and values of a topic."""
    return [(record.key, record.value) for record in run(text, out, inputs)]


def value_of(expression: str) -> Any:
    """Return the value of a constant expression."""
    generator = Generator({})
    code = generator.code(parse_expression(expression))
    guard: Callable[..., Any] = lambda compute, *arguments: compute(*arguments)  # noqa: E731
    return eval(code.text, {**generator.names, "guard": guard})


def type_of(expression: str) -> str:
    """Return the type of a constant expression."""
    return str(Generator({}).code(parse_expression(expression)).type)
