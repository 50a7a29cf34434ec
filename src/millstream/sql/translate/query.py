"""Translate a SELECT into handles: sources, joins, WHERE, then groups or new keys, and the columns of the result."""

from __future__ import annotations

from typing import ClassVar

from millstream.sql import checks
from millstream.sql.aggregates import is_aggregate
from millstream.sql.catalog import Catalog, Columns, Format, Relation
from millstream.sql.compiled import parse_type
from millstream.sql.functions.user import is_table_function
from millstream.sql.nodes import AnyExpression, Column, Constant, Field, Item, Query, Source, Star
from millstream.sql.problems import Problem
from millstream.sql.properties import check_format
from millstream.sql.selection import SqlSelection
from millstream.sql.translate.flow import QueryFlow
from millstream.sql.translate.grouping import Grouping
from millstream.sql.translate.joins import joined, prefixed
from millstream.sql.translate.names import Input, QueryNames
from millstream.sql.translate.outputs import OutputColumn, outputs_of, resolve_item
from millstream.sql.translate.reading import Readers, node_name, read
from millstream.sql.translate.result import DefinedResult, split_key
from millstream.sql.translate.unions import branch_names, merged
from millstream.sql.tree import columns_of, sql, transform, walk
from millstream.sql.types import NULL, Type, quoted


class QueryTranslator:
    """Translates one query; ``name`` is that of its result, and the root of the names of stateful steps."""

    is_endless: ClassVar[bool] = True
    """Whether the result is a stream or table of an app; otherwise its rows are only shown."""

    def __init__(self, query: Query, readers: Readers, catalog: Catalog, name: str) -> None:
        self.query = query
        self.readers = readers
        self.name = node_name(name)
        self._catalog = catalog
        self._branches: list[QueryTranslator] = []
        if query.unions:
            if not self.is_endless:
                raise Problem(query.unions[0].offset, "UNION ALL is for queries of an app", "use CREATE … AS SELECT")
            self.name, *others = map(node_name, branch_names(name, query))
            self._branches = [
                QueryTranslator(branch, readers, catalog, own) for own, branch in zip(others, query.unions, strict=True)
            ]
        inputs = [self._input(source) for source in (query.source, *(join.source for join in query.joins))]
        self.names = QueryNames(inputs, shows_bounds=not self.is_endless)
        if self.is_endless:
            checks.check_endless(query)
        checks.check_query(query, self.names)

    def _input(self, source: Source) -> Input:
        """Return a source: a stream or table, or the result of a query in FROM, whose steps become part of this one."""
        if source.query is None:
            return Input(source.alias, self._catalog.find(source.name, source.offset))
        if not self.is_endless:
            raise Problem(
                source.offset, "a query in FROM is for queries of an app", "define it with CREATE … AS SELECT"
            )
        inner = QueryTranslator(source.query, self.readers, self._catalog, f"{self.name}.{source.alias}")
        origin = inner.names.inputs[0].relation
        result = inner.result(origin.key_format)
        relation = Relation(
            name=inner.name,
            kind=result.kind,
            topic="",
            keys=result.keys,
            values=result.values,
            key_format=origin.key_format,
            value_format=origin.value_format,
            window=result.window,
            registry=origin.registry,
        )
        self.readers.bound[inner.name] = result.handle
        return Input(source.alias, relation)

    def result(self, key_format: Format) -> DefinedResult:
        """Return the result; ``key_format`` is the format of its keys, which decides their partitions."""
        result = self._own_result(key_format)
        if not self._branches:
            return result
        return merged(self.query, [result, *(branch.result(key_format) for branch in self._branches)])

    def _own_result(self, key_format: Format) -> DefinedResult:
        query = self.query
        flow = self._flow()
        if query.where is not None:
            where = self._condition(flow, query.where)
            if query.group_by is not None or flow.is_table or query.joins:
                flow, where = flow.filtered(where), ""
        else:
            where = ""
        if query.group_by is not None:
            return self._grouped(flow, key_format)
        return self._table(flow) if flow.is_table else self._stream(flow, where, key_format)

    # Sources

    def _needed(self) -> set[str]:
        """Return the columns that the query uses, by their names inside the query."""
        query, needed = self.query, set()
        nodes: list[AnyExpression] = [item.expression for item in query.items]
        nodes += [node for node in (query.where, query.having) if node is not None]
        nodes += [*(query.group_by or ()), *(query.partition_by or ()), *(join.on for join in query.joins)]
        for node in nodes:
            for part in walk(node):
                if isinstance(part, Star) and not _is_count(node):
                    needed |= {self.names.internal(*pair) for pair in self.names.expanded(part)}
            for column in columns_of(node):
                needed |= self._needed_name(column)
        return needed

    def _needed_name(self, column: Column) -> set[str]:
        try:
            return {self.names.internal(*self.names.find(column))}
        except Problem:  # bounds of windows, or an error that is reported where the column is used
            return set()

    def _flow(self) -> QueryFlow:
        query, names, needed = self.query, self.names, self._needed()
        if not names.is_joined:
            return read(self.readers, names.inputs[0], needed, self.name)
        flows = []
        for source in names.inputs:
            own = {name for name in source.all_columns if names.internal(source, name) in needed}
            flows.append(prefixed(read(self.readers, source, own, self.name), source, names, needed))
        flow = flows[0]
        for number, (join, right) in enumerate(zip(query.joins, flows[1:], strict=True), 1):
            step = f"{self.name}.join" if len(flows) == 2 else f"{self.name}.join-{number}"
            flow = joined(flow, right, join, names, names.inputs[number], step)
        return flow

    def _condition(self, flow: QueryFlow, node: AnyExpression) -> str:
        resolved = self.names.resolved(node, "WHERE")
        checks.check_scalar(resolved, "WHERE")
        flow.generator().condition(resolved)
        return sql(resolved)

    # Results

    def _outputs(self, flow: QueryFlow) -> list[OutputColumn]:
        query = self.query
        has_row_key = self.names.is_joined and bool(flow.keys) and "ROWKEY" in flow.keys[0]
        items: tuple[Item, ...] = query.items
        return outputs_of(
            items,
            self.names,
            flow.generator(),
            has_row_key=has_row_key and query.partition_by is None,
            keeps_bounds=query.window is not None,
            keys_last=query.partition_by is not None,
            allows_system=not self.is_endless,
        )

    def _table(self, flow: QueryFlow) -> DefinedResult:
        outputs = self._outputs(flow)
        for output in outputs:
            checks.check_scalar(output.node, "SELECT")
            _refuse_table_functions(output, "a table")
        chosen, others = split_key(outputs, flow.keys, self.query.offset, self._key_name())
        keys = {output.name: type for output, type in zip(chosen, flow.key_types, strict=True)}
        values = self._types(flow, others)
        name = self.name if flow.window is None else None  # a table without windows can be read by its name
        handle = flow.projected(values, {output.name: sql(output.node) for output in others}, name)
        return DefinedResult(handle, "TABLE", keys, values, flow.window, self.names.inputs[0].relation)

    def _key_name(self) -> str:
        return "join column" if self.names.is_joined else "key column"

    def _types(self, flow: QueryFlow, outputs: list[OutputColumn]) -> Columns:
        generator = flow.generator()
        types: dict[str, Type] = {}
        for output in outputs:
            type = generator.code(output.node).type
            if type == NULL:
                raise Problem(output.offset, "NULL has no type", "CAST it: CAST(NULL AS STRING)")
            types[output.name] = type
        return types

    def _stream(self, flow: QueryFlow, where: str, key_format: Format) -> DefinedResult:
        flow, outputs, where = self._unnested(flow, self._outputs(flow), where)
        for output in outputs:
            checks.check_scalar(output.node, "SELECT")
        key: tuple[str, ...] | None = None
        if self.query.partition_by is None:
            chosen, others = split_key(outputs, flow.keys, self.query.offset, self._key_name())
            keys = {output.name: type for output, type in zip(chosen, flow.key_types, strict=True)}
        else:
            keys, others, key = self._partitioned(flow, outputs, key_format)
        values, exploded = self._exploded(flow, others)
        selection = SqlSelection(
            scope=flow.scope,
            where=where or None,
            key=key,
            columns=tuple((output.name, sql(output.node)) for output in others),
            exploded=exploded,
        )
        serde = key_format.serde(keys, is_key=True) if key is not None else None
        window = flow.window if key is None else None
        origin = self.names.inputs[0].relation
        return DefinedResult(
            flow.selected(selection, serde), "STREAM", keys, values, window, origin, is_rekeyed=key is not None
        )

    def _unnested(
        self, flow: QueryFlow, outputs: list[OutputColumn], where: str
    ) -> tuple[QueryFlow, list[OutputColumn], str]:
        """Return a flow in which table functions inside expressions are columns already."""
        inner: dict[str, AnyExpression] = {}

        def change(part: AnyExpression) -> AnyExpression | None:
            if not is_table_function(part):
                return None
            inner.setdefault(sql(part), part)
            return Column(name=f"#{list(inner).index(sql(part))}", offset=part.offset)

        nested = (output.node for output in outputs if not (self.is_endless and is_table_function(output.node)))
        if not any(map(_has_table_function, nested)):
            return flow, outputs, where
        outputs = [output._replace(node=transform(output.node, change)) for output in outputs]
        generator = flow.generator()
        values = [(name, type) for name, type, location in flow.scope if location == "value"]
        exploded = [(f"#{number}", generator.code(node).type.items[0]) for number, node in enumerate(inner.values())]
        selection = SqlSelection(
            scope=flow.scope,
            where=where or None,
            columns=(*((name, quoted(name)) for name, _ in values), *((f"#{n}", text) for n, text in enumerate(inner))),
            exploded=tuple(range(len(values), len(values) + len(inner))),
        )
        scope = (*flow.scope, *((name, str(type), "value") for name, type in exploded))
        return flow._replace(handle=flow.selected(selection), scope=scope), outputs, ""

    def _exploded(self, flow: QueryFlow, outputs: list[OutputColumn]) -> tuple[Columns, tuple[int, ...]]:
        """Return the types of columns, and the numbers of those that are results of table functions."""
        types = self._types(flow, outputs)
        exploded = []
        for number, output in enumerate(outputs):
            if is_table_function(output.node):
                exploded.append(number)
                types[output.name] = types[output.name].items[0]
            else:
                _refuse_table_functions(output, "an expression")
        return types, tuple(exploded)

    def _partitioned(
        self, flow: QueryFlow, outputs: list[OutputColumn], key_format: Format
    ) -> tuple[Columns, list[OutputColumn], tuple[str, ...]]:
        """Return the columns of the key, the other outputs, and the expressions of the key."""
        given = self.query.partition_by or ()
        nulls = [isinstance(node, Constant) and node.kind == "null" for node in given]
        if any(nulls):
            if len(given) > 1:
                raise Problem(given[0].offset, "PARTITION BY several columns cannot contain NULL", "remove it")
            return {}, outputs, ()
        if not given:
            raise Problem(self.query.offset, "PARTITION BY needs an expression")
        nodes = [self.names.resolved(node, "PARTITION BY") for node in given]
        generator = flow.generator()
        keys: Columns = {}
        chosen: list[OutputColumn] = []
        texts: list[str] = []
        for node in nodes:
            checks.check_scalar(node, "PARTITION BY")
            text = sql(node)
            if text in texts:
                raise Problem(node.offset, "the same expression is twice in PARTITION BY", "remove one")
            output = self._key_output(node, text, outputs)
            texts.append(text)
            chosen.append(output)
            keys[output.name] = generator.code(node).type
            checks.check_key_type(keys[output.name], node.offset)
        check_format(key_format, keys, self.query.offset, "key")
        return keys, [output for output in outputs if output not in chosen], tuple(texts)

    def _key_output(self, node: AnyExpression, text: str, outputs: list[OutputColumn]) -> OutputColumn:
        same = [output for output in outputs if sql(output.node) == text]
        if len(same) > 1:
            raise Problem(
                same[1].offset, f"the key column {same[0].name} is selected more than once", "use AS_VALUE(…)"
            )
        if same:
            return same[0]
        if any(isinstance(item.expression, Star) for item in self.query.items):
            if isinstance(node, Column | Field):
                return OutputColumn(node.name, node, node.offset)
            number = sum(output.name.startswith("KSQL_COL_") for output in outputs)
            return OutputColumn(f"KSQL_COL_{number}", node, node.offset)
        raise Problem(
            node.offset, f"{text} of PARTITION BY is missing in SELECT", "add it: it is the key of the result"
        )

    def _grouping(self, flow: QueryFlow) -> tuple[Grouping, list[OutputColumn], AnyExpression | None]:
        """Return the groups, and the outputs and HAVING over groups and aggregates."""
        query = self.query
        groups = [self.names.resolved(node, "GROUP BY") for node in query.group_by or ()]
        checks.check_groups(groups, query, self.names)
        grouping = Grouping(flow, groups, query.window, self._catalog.settings)
        outputs = self._outputs(flow)
        for output in outputs:
            checks.check_functions(output.node)
            if any(is_table_function(part) for part in walk(output.node)):
                raise Problem(
                    output.offset, "table functions cannot be used with GROUP BY", "explode in a query before"
                )
        outputs = [output._replace(node=grouping.replaced(output.node, "SELECT")) for output in outputs]
        having = None
        if query.having is not None:
            resolved = resolve_item(query.having, self.names, keeps_bounds=False, clause="HAVING")
            having = grouping.replaced(resolved, "HAVING")
        if not grouping.has_aggregates:
            raise Problem(query.offset, "GROUP BY needs an aggregate function in SELECT or HAVING", "add COUNT(*)")
        return grouping, outputs, having

    def _grouped(self, flow: QueryFlow, key_format: Format) -> DefinedResult:
        query = self.query
        grouping, outputs, having = self._grouping(flow)
        keys = tuple((f"#{number}",) for number in range(len(grouping.groups)))
        chosen, others = split_key(outputs, keys, query.offset, "grouping expression")
        types = {output.name: type for output, type in zip(chosen, grouping.types, strict=True)}
        for type in types.values():
            checks.check_key_type(type, query.offset)
        check_format(key_format, types, query.offset, "key")
        is_same = having is None and grouping.rename({output.name: output.node for output in others})
        keeps_name = is_same or query.window is not None
        name = self.name if keeps_name else f"{self.name}.groups"
        table = grouping.aggregated(name, query, key_format.serde(types, is_key=True))
        origin = self.names.inputs[0].relation
        if is_same:
            values = {output.name: parse_type(text) for output, (_, text, _) in zip(others, table.values, strict=True)}
            return DefinedResult(table.handle, "TABLE", types, values, table.window, origin, is_rekeyed=True)
        if having is not None:
            table.generator().condition(having)
            table = table.filtered(sql(having))
        values = self._types(table, others)
        columns = {output.name: sql(output.node) for output in others}
        handle = table.projected(values, columns, None if keeps_name else self.name)
        return DefinedResult(handle, "TABLE", types, values, table.window, origin, is_rekeyed=True)


def _is_count(node: AnyExpression) -> bool:
    return not isinstance(node, Star)


def _has_table_function(node: AnyExpression) -> bool:
    return any(is_table_function(part) for part in walk(node))


def _refuse_table_functions(output: OutputColumn, what: str) -> None:
    for part in walk(output.node):
        if is_table_function(part):
            raise Problem(
                part.offset, f"a table function cannot be used in {what}", "select it by itself from a stream"
            )


def uses_aggregates(query: Query) -> bool:
    """Whether a query has an aggregate function in SELECT."""
    return any(is_aggregate(part) for item in query.items for part in walk(item.expression))
