"""Parse statements that show something or control queries: SHOW, DESCRIBE, PRINT, EXPLAIN, PAUSE, RESUME, TERMINATE."""

from __future__ import annotations

from typing import Literal, cast

from millstream.sql.nodes import (
    AnyStatement,
    Control,
    CreateAs,
    Describe,
    Explain,
    InsertSelect,
    Print,
    Select,
    Show,
)
from millstream.sql.parser.queries import QueryParser
from millstream.sql.tokens import refuse

CONTROLS = ("PAUSE", "RESUME", "TERMINATE")
COMMANDS = ("SHOW", "LIST", "DESCRIBE", "EXPLAIN", "PRINT", *CONTROLS)
SHOWN = ("STREAMS", "TABLES", "TOPICS", "QUERIES", "FUNCTIONS", "PROPERTIES", "TYPES", "VARIABLES")


class CommandParser(QueryParser):
    """Parses commands, whose first word is already read."""

    def _statement(self) -> AnyStatement:
        raise NotImplementedError

    def command(self, verb: str) -> AnyStatement:
        """Return the command that begins with a verb."""
        if verb in ("SHOW", "LIST"):
            return self._show()
        if verb == "DESCRIBE":
            return self._describe()
        if verb == "PRINT":
            return self._print()
        return self._explain() if verb == "EXPLAIN" else self._control(verb)

    def _show(self) -> Show:
        self.take_word("ALL")
        what = self.take_any(*SHOWN)
        if what is None:
            self.unexpected(f"one of {', '.join(SHOWN)}", list(SHOWN))
        self.take_word("EXTENDED")  # all that is known is shown anyway
        return Show(what=what)

    def _describe(self) -> Describe:
        if self.take_word("FUNCTION"):
            return Describe(name=self.name("the name of a function"), is_function=True)
        is_extended = self.take_word("EXTENDED")
        name = self.name("the name of a stream or table")
        return Describe(name=name, is_extended=self.take_word("EXTENDED") or is_extended)

    def _print(self) -> Print:
        if self.token.kind not in ("name", "quoted", "text"):
            self.unexpected("a topic")
        token = self.advance()
        topic = self.text[token.start : token.end] if token.kind == "name" else token.text  # topics keep their case
        from_beginning = self.take_word("FROM", "BEGINNING")
        interval, limit = 1, None
        if self.take_any("INTERVAL", "SAMPLE") is not None:
            at = self.token.start
            interval = self.integer()
            if not interval:
                refuse(self.text, at, "an interval of 0 prints nothing", "use 1 or more")
        if self.take_word("LIMIT"):
            limit = self.integer()
        return Print(topic=topic, from_beginning=from_beginning, interval=interval, limit=limit)

    def _explain(self) -> Explain:
        if self.ahead().kind in ("name", "quoted") and (verb := self.take_any(*CONTROLS)) is not None:
            return Explain(explained=self._control(verb))
        if not (self.is_word("SELECT") or self.is_word("CREATE") or self.is_word("INSERT")):
            return Explain(explained=self.name("a query, or the name of one"))
        start = self.token.start
        explained = self._statement()
        if not isinstance(explained, CreateAs | InsertSelect | Select):
            refuse(self.text, start, "only queries can be explained", "EXPLAIN SELECT …")
        return Explain(explained=explained)

    def _control(self, word: str) -> Control:
        verb = cast("Literal['PAUSE', 'RESUME', 'TERMINATE']", word)
        if self.take_word("ALL"):
            return Control(verb=verb, names=())
        names = [self.name("the name of a query, or ALL")]
        while self.take_symbol(","):
            names.append(self.name("the name of a query"))
        return Control(verb=verb, names=tuple(names))
