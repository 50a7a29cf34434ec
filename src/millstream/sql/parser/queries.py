"""Parse SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from millstream.sql.nodes import AnyExpression, Item, Join, Order, Query, Source, Star, Window
from millstream.sql.parser.expressions import ExpressionParser
from millstream.sql.tokens import refuse
from millstream.sql.types import Type

MAX_WINDOWS = 100_000
"""To how many HOPPING windows a record may belong."""


class QueryParser(ExpressionParser):
    """Parses queries."""

    def __init__(self, text: str, types: Mapping[str, Type] | None = None) -> None:
        super().__init__(text, types)
        self._named: dict[str, Query] = {}
        """The queries of WITH by name."""

    def query(self) -> Query:
        """Return the SELECT that is next; ``WITH name AS (SELECT …)`` before it names queries that FROM can use."""
        if not self.take_word("WITH"):
            return self._selects()
        outer = self._named
        self._named = dict(outer)
        self._named_query()
        while self.take_symbol(","):
            self._named_query()
        query = self._selects()
        self._named = outer
        return query

    def _selects(self) -> Query:
        """Return a SELECT with those that UNION ALL adds to it."""
        query = self._select()
        unions: list[Query] = []
        while self.is_word("UNION"):
            if not self.take_word("UNION", "ALL"):
                refuse(self.text, self.token.start, "UNION would remove duplicates of an endless stream", "UNION ALL")
            unions.append(self._select())
        return msgspec.structs.replace(query, unions=tuple(unions)) if unions else query

    def _named_query(self) -> None:
        name = self.name("the name of a query")
        self.expect_word("AS")
        self._named[name] = self._subquery()

    def _subquery(self) -> Query:
        self.expect_symbol("(")
        query = self.deeper(self.query)
        self.expect_symbol(")")
        return query

    def _select(self) -> Query:
        offset = self.token.start
        self.expect_word("SELECT")
        items = self._items()
        self.expect_word("FROM")
        source = self._source()
        joins = self._joins()
        clauses: dict[str, Any] = {}
        while (clause := self._clause()) is not None:
            word, value, start = clause
            if word in clauses:
                refuse(self.text, start, f"{self.text[start:].split()[0].upper()} is given twice")
            clauses[word] = value
        return Query(items=items, source=source, joins=joins, offset=offset, **clauses)

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self.take_symbol(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> Item:
        offset = self.token.start
        if self.take_symbol("*"):
            return Item(Star(offset=offset), None, offset)
        expression = self.expression()
        if isinstance(expression, Star):
            return Item(expression, None, offset)
        return Item(expression, self._alias(), offset)

    def _alias(self) -> str | None:
        if self._is_as_of():
            return None
        if self.take_word("AS"):
            return self.name("an alias")
        token = self.token
        follows = {
            "FROM",
            "WINDOW",
            "WHERE",
            "EMIT",
            "PARTITION",
            "HAVING",
            "LIMIT",
            "WITHIN",
            "GRACE",
            "OFFSET",
            "ORDER",
            "UNION",
        }
        is_name = token.kind == "quoted" or (token.kind == "name" and token.text not in follows | _JOIN_WORDS)
        return self.name("an alias") if is_name else None

    def _source(self) -> Source:
        offset = self.token.start
        if self.is_symbol("("):
            query = self._subquery()
            alias = self._alias()
            if alias is None:
                self.unexpected("an alias for the query in parentheses")
            return Source(alias, alias, offset, query)
        name = self.name("the name of a stream or table")
        if name in self._named:
            return Source(name, self._alias() or name, offset, self._named[name])
        if self.is_symbol("("):
            refuse(self.text, offset, "a function cannot be read from", "use it in SELECT")
        return Source(name, self._alias() or name, offset)

    def _joins(self) -> tuple[Join, ...]:
        joins = []
        while (kind := self._join_kind()) is not None:
            offset = self.token.start
            source = self._source()
            as_of = self.expression() if self.take_word("AS", "OF") else None
            within = self._within()
            grace = self._grace() if self.is_word("GRACE") else None
            self.expect_word("ON")
            joins.append(Join(kind, source, self.expression(), within, grace, offset, as_of))
        return tuple(joins)

    def _is_as_of(self) -> bool:
        return self.is_word("AS") and (self.ahead().kind, self.ahead().text) == ("name", "OF")

    def _join_kind(self) -> Literal["INNER", "LEFT", "RIGHT", "OUTER"] | None:
        kinds: dict[str, Literal["INNER", "LEFT", "RIGHT", "OUTER"]] = {
            "INNER": "INNER", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "OUTER", "OUTER": "OUTER",
        }  # fmt: skip
        if self.take_word("JOIN"):
            return "INNER"
        word = self.take_any(*kinds)
        if word is None:
            return None
        if word in ("LEFT", "RIGHT", "FULL"):
            self.take_word("OUTER")
        self.expect_word("JOIN")
        return kinds[word]

    def _within(self) -> tuple[int, int] | None:
        if not self.take_word("WITHIN"):
            return None
        if self.take_symbol("("):
            before = self.duration()
            self.expect_symbol(",")
            after = self.duration()
            self.expect_symbol(")")
            return before, after
        both = self.duration()
        return both, both

    def _grace(self) -> int:
        self.expect_word("GRACE", "PERIOD")
        return self.duration()

    def _clause(self) -> tuple[str, Any, int] | None:
        start = self.token.start
        if self.take_word("WINDOW"):
            return "window", self._window(start), start
        if self.take_word("WHERE"):
            return "where", self.expression(), start
        if self.take_word("GROUP", "BY"):
            return "group_by", self._expressions(), start
        if self.take_word("PARTITION", "BY"):
            return "partition_by", self._expressions(), start
        if self.take_word("HAVING"):
            return "having", self.expression(), start
        if self.take_word("EMIT"):
            mode = self.take_any("CHANGES", "FINAL")
            return ("emit", mode, start) if mode else self.unexpected("CHANGES or FINAL", ["CHANGES", "FINAL"])
        if self.take_word("ORDER", "BY"):
            return "order_by", self._orders(), start
        if self.take_word("LIMIT"):
            return "limit", self.integer(), start
        if self.take_word("OFFSET"):
            return "skip", self.integer(), start
        return None

    def _orders(self) -> tuple[Order, ...]:
        orders: list[Order] = []
        while not orders or self.take_symbol(","):
            expression = self.expression()
            orders.append(Order(expression, self.take_any("ASC", "DESC") == "DESC"))
        return tuple(orders)

    def _expressions(self) -> tuple[AnyExpression, ...]:
        """Return expressions separated by commas, all of them in parentheses or none."""
        if self.is_symbol("("):
            before = self.position
            self.advance()
            if self.take_symbol(")"):
                return ()
            items = self.list_of(self.expression)
            if len(items) > 1 or self._ends_list():
                return items
            self.position = before
        items_ = [self.expression()]
        while self.take_symbol(","):
            items_.append(self.expression())
        return tuple(items_)

    def _ends_list(self) -> bool:
        token = self.token
        return token.kind in ("end", "name") or self.is_symbol(";")

    def _window(self, offset: int) -> Window:
        kind = self.take_any("TUMBLING", "HOPPING", "SESSION")
        if kind is None and self.ahead().text in ("TUMBLING", "HOPPING", "SESSION"):
            self.advance()  # the name of the window
            kind = self.take_any("TUMBLING", "HOPPING", "SESSION")
        if kind is None:
            self.unexpected("TUMBLING, HOPPING or SESSION", ["TUMBLING", "HOPPING", "SESSION"])
        self.expect_symbol("(")
        options: dict[str, int] = {}
        if kind == "SESSION":
            options["size"] = self.duration()
        else:
            self.expect_word("SIZE")
            options["size"] = self.duration()
        while self.take_symbol(","):
            self._window_option(options)
        self.expect_symbol(")")
        if kind == "HOPPING" and "advance" not in options:
            refuse(self.text, offset, "a HOPPING window needs an advance", "add: ADVANCE BY 1 MINUTE")
        if kind != "HOPPING" and "advance" in options:
            refuse(self.text, offset, f"a {kind} window has no advance", "use HOPPING, or remove ADVANCE BY")
        self._check_window(options, offset)
        return Window(kind=kind, offset=offset, **options)  # type: ignore[arg-type]

    def _check_window(self, options: dict[str, int], offset: int) -> None:
        size, advance = options["size"], options.get("advance", options["size"])
        if not size or not advance:
            refuse(self.text, offset, "a window of 0 ms contains nothing", "use 1 MILLISECOND or more")
        if size // advance > MAX_WINDOWS:
            message = f"each record would belong to {size // advance:,} windows"
            refuse(self.text, offset, message, f"use at most {MAX_WINDOWS:,}: a larger ADVANCE BY")

    def _window_option(self, options: dict[str, int]) -> None:
        if self.take_word("ADVANCE", "BY"):
            options["advance"] = self.duration()
        elif self.take_word("RETENTION"):
            options["retention"] = self.duration()
        elif self.is_word("GRACE"):
            options["grace"] = self._grace()
        else:
            self.unexpected("ADVANCE BY, RETENTION or GRACE PERIOD", ["ADVANCE", "RETENTION", "GRACE"])


_JOIN_WORDS = {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "ON", "GROUP"}
