"""Parse expressions by precedence climbing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from millstream.sql.nodes import (
    AnyExpression,
    Array,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Field,
    In,
    Index,
    IsNull,
    Lambda,
    Like,
    Map,
    Star,
    Struct,
    Unary,
)
from millstream.sql.parser.cursor import MAX_DEPTH, RESERVED, TokenCursor
from millstream.sql.tokens import Token, refuse

_COMPARISONS = ("=", "<>", "!=", "<", ">", "<=", ">=")
_FACTORS = ("*", "/", "%")
_CALLABLE_WORDS = ("LEFT", "RIGHT", "IN", "VALUES")
"""Reserved words that are also names of functions."""


class ExpressionParser(TokenCursor):
    """Parses expressions; from the weakest operator to the strongest."""

    def expression(self) -> AnyExpression:
        """Return the expression that is next."""
        return self.deeper(self._or)

    def _or(self) -> AnyExpression:
        return self._chain("OR", self._and)

    def _and(self) -> AnyExpression:
        return self._chain("AND", self._not)

    def _chain(self, operator: str, parse: Callable[[], AnyExpression]) -> AnyExpression:
        """Return conditions combined by one operator, as a balanced tree: chains can be long, trees not deep."""
        operands = [parse()]
        while self.take_word(operator):
            operands.append(parse())
        while len(operands) > 1:
            pairs = zip(operands[::2], operands[1::2], strict=False)
            rest = operands[-1:] if len(operands) % 2 else []
            operands = [Binary(operator=operator, left=a, right=b, offset=b.offset) for a, b in pairs] + rest
        return operands[0]

    def _not(self) -> AnyExpression:
        if self.is_word("NOT"):
            offset = self.advance().start
            return Unary(operator="NOT", operand=self.deeper(self._not), offset=offset)
        return self._predicate()

    def _predicate(self) -> AnyExpression:
        left = self._sum()
        for _ in range(MAX_DEPTH):
            following = self._predicate_after(left)
            if following is None:
                return left
            left = following
        self._refuse_chain()

    def _predicate_after(self, left: AnyExpression) -> AnyExpression | None:
        token = self.token
        if token.kind == "symbol" and token.text in _COMPARISONS:
            self.advance()
            operator = "<>" if token.text == "!=" else token.text
            return Binary(operator=operator, left=left, right=self._sum(), offset=token.start)
        if self.take_word("IS"):
            return self._is(left, token.start)
        negated = self.is_word("NOT") and self.ahead().text in ("BETWEEN", "IN", "LIKE")
        if negated:
            self.advance()
        if self.take_word("BETWEEN"):
            low = self._sum()
            self.expect_word("AND")
            return Between(operand=left, low=low, high=self._sum(), negated=negated, offset=token.start)
        if self.take_word("IN"):
            self.expect_symbol("(")
            items = self.list_of(self.expression)
            return In(operand=left, items=items, negated=negated, offset=token.start)
        if self.take_word("LIKE"):
            pattern = self._sum()
            escape = self.string("the escape character") if self.take_word("ESCAPE") else None
            return Like(operand=left, pattern=pattern, escape=escape, negated=negated, offset=token.start)
        return None

    def _is(self, left: AnyExpression, offset: int) -> AnyExpression:
        negated = self.take_word("NOT")
        if self.take_word("NULL"):
            return IsNull(operand=left, negated=negated, offset=offset)
        self.expect_word("DISTINCT", "FROM")
        operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
        return Binary(operator=operator, left=left, right=self._sum(), offset=offset)

    def _sum(self) -> AnyExpression:
        left, first = self._product(), self.position
        while self.token.kind == "symbol" and self.token.text in ("+", "-", "||"):
            token = self._operator(first)
            left = Binary(operator=token.text, left=left, right=self._product(), offset=token.start)
        return left

    def _product(self) -> AnyExpression:
        left, first = self._signed(), self.position
        while self.token.kind == "symbol" and self.token.text in _FACTORS:
            token = self._operator(first)
            left = Binary(operator=token.text, left=left, right=self._signed(), offset=token.start)
        return left

    def _operator(self, first: int) -> Token:
        """Return the operator that is next; ``first`` is where the chain of operators began."""
        if self.position - first > 3 * MAX_DEPTH:
            self._refuse_chain()
        return self.advance()

    def _refuse_chain(self) -> NoReturn:
        refuse(self.text, self.token.start, f"this is a chain of more than {MAX_DEPTH} operators", "split it up")

    def _signed(self) -> AnyExpression:
        token = self.token
        if token.kind == "symbol" and token.text in ("+", "-"):
            self.advance()
            operand = self.deeper(self._signed)
            if isinstance(operand, Constant) and token.text == "-" and operand.kind in ("integer", "decimal", "float"):
                return Constant(kind=operand.kind, text=f"-{operand.text}", offset=token.start)
            return Unary(operator=token.text, operand=operand, offset=token.start)
        return self._postfix(self._primary())

    def _postfix(self, operand: AnyExpression) -> AnyExpression:
        for _ in range(MAX_DEPTH + 1):
            token = self.token
            if self.take_symbol("["):
                index = self.expression()
                self.expect_symbol("]")
                operand = Index(operand=operand, index=index, offset=token.start)
            elif self.take_symbol("->"):
                name = "*" if self.take_symbol("*") else self.field_name()
                operand = Field(operand=operand, name=name, offset=token.start)
            else:
                return operand
        self._refuse_chain()

    def field_name(self) -> str:
        """Return the name of a field, for which reserved words are allowed too."""
        if self.token.kind in ("name", "quoted"):
            return self.advance().text
        return self.name("a field")

    def _primary(self) -> AnyExpression:
        token = self.token
        if token.kind in ("integer", "decimal", "float", "text"):
            self.advance()
            return Constant(kind=token.kind, text=token.text, offset=token.start)  # type: ignore[arg-type]
        if self.is_symbol("("):
            return self._parenthesis()
        if token.kind == "name":
            special = self._special(token.text, token.start)
            if special is not None:
                return special
        if self.is_symbol("(", 1) and token.kind in ("name", "quoted"):
            return self._call()
        if self.is_symbol("=>", 1):
            return self._lambda()
        return self._column()

    def _special(self, word: str, offset: int) -> AnyExpression | None:
        """Return an expression that begins with a keyword."""
        if word in ("TRUE", "FALSE"):
            self.advance()
            return Constant(kind="boolean", text=word, offset=offset)
        if word == "NULL":
            self.advance()
            return Constant(kind="null", text=word, offset=offset)
        if word == "CASE":
            return self._case()
        if word == "ARRAY" and self.is_symbol("[", 1):
            return self._array()
        if self.is_symbol("(", 1):
            parsers: dict[str, Callable[[], AnyExpression]] = {
                "CAST": self._cast,
                "MAP": self._map,
                "STRUCT": self._struct,
            }
            return parsers[word]() if word in parsers else None
        return None

    def _parenthesis(self) -> AnyExpression:
        if self._is_lambda():
            return self._lambda()
        self.expect_symbol("(")
        inner = self.expression()
        self.expect_symbol(")")
        return inner

    def _is_lambda(self) -> bool:
        """Whether the parenthesis that is next contains parameters: names up to ``) =>``."""
        count = 1
        while self.ahead(count).kind in ("name", "quoted") and self.is_symbol(",", count + 1):
            count += 2
        return (
            self.ahead(count).kind in ("name", "quoted")
            and self.is_symbol(")", count + 1)
            and self.is_symbol("=>", count + 2)
        )

    def _lambda(self) -> Lambda:
        offset = self.token.start
        if self.take_symbol("("):
            parameters = self.list_of(lambda: self.name("a parameter"))
        else:
            parameters = (self.name("a parameter"),)
        self.expect_symbol("=>")
        return Lambda(parameters=parameters, body=self.expression(), offset=offset)

    def _case(self) -> Case:
        offset = self.advance().start
        operand = None if self.is_word("WHEN") else self.expression()
        branches = []
        while self.take_word("WHEN"):
            condition = self.expression()
            self.expect_word("THEN")
            branches.append((condition, self.expression()))
        if not branches:
            self.unexpected("WHEN", ["WHEN"])
        otherwise = self.expression() if self.take_word("ELSE") else None
        self.expect_word("END")
        return Case(operand=operand, branches=tuple(branches), otherwise=otherwise, offset=offset)

    def _cast(self) -> Cast:
        offset = self.advance().start
        self.expect_symbol("(")
        operand = self.expression()
        self.expect_word("AS")
        type = self.type()
        self.expect_symbol(")")
        return Cast(operand=operand, type=type, offset=offset)

    def _array(self) -> Array:
        offset = self.advance().start
        self.expect_symbol("[")
        items = () if self.take_symbol("]") else self.list_of(self.expression, "]")
        return Array(items=items, offset=offset)

    def _map(self) -> Map:
        offset = self.advance().start
        self.expect_symbol("(")
        items = () if self.take_symbol(")") else self.list_of(self._entry)
        return Map(items=items, offset=offset)

    def _entry(self) -> tuple[AnyExpression, AnyExpression]:
        key = self.expression()
        self.expect_symbol(":=")
        return key, self.expression()

    def _struct(self) -> Struct:
        offset = self.advance().start
        self.expect_symbol("(")
        items = () if self.take_symbol(")") else self.list_of(self._member)
        return Struct(items=items, offset=offset)

    def _member(self) -> tuple[str, AnyExpression]:
        name = self.field_name()
        self.expect_symbol(":=")
        return name, self.expression()

    def _call(self) -> AnyExpression:
        token = self.advance()
        if token.kind == "name" and token.text in RESERVED and token.text not in _CALLABLE_WORDS:
            self.position -= 1
            self.unexpected("an expression")
        self.expect_symbol("(")
        arguments: tuple[AnyExpression, ...]
        if self.take_symbol(")"):
            arguments = ()
        elif self.is_symbol("*") and self.is_symbol(")", 1):
            star = Star(offset=self.advance().start)
            self.expect_symbol(")")
            arguments = (star,)
        else:
            arguments = self.list_of(self.expression)
        name = token.text.upper()
        declaration = self.functions.get(name, "")
        if self.reads_declarations and token.kind == "quoted":
            name, declaration = token.text.partition("(")[0].split()[-1], token.text
        return Call(name=name, arguments=arguments, declaration=declaration, offset=token.start)

    def _column(self) -> AnyExpression:
        offset = self.token.start
        name = self.name("an expression")
        if not self.take_symbol("."):
            return Column(name=name, offset=offset)
        if self.is_symbol("*"):
            self.advance()
            return Star(source=name, offset=offset)
        return Column(name=self.field_name(), source=name, offset=offset)
