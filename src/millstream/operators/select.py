"""Filter and compute columns by generated functions, for single records and for column batches."""

from __future__ import annotations

from functools import cache
from typing import Any

from millstream.foundation.struct_rows import StructRow, are_structs, as_dicts
from millstream.foundation.value_errors import Origin
from millstream.operators.columns import ColumnBatch, ProcessColumns, column_operator
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.select import CompiledSelection, NoteError, Select, SelectRekeyed, takes_structs


@operator.register(Select)
@operator.register(SelectRekeyed)
def _select(node: Select, forward: Process, runtime: Runtime) -> Process:
    compiled, note = node.selection.compile(), _note(node, runtime, None)
    where, key_of, value_of, explode, skips = compiled

    def process(key: Any, value: Any, timestamp: int) -> None:
        if isinstance(value, StructRow):
            value = value.as_dict()
        record = [key], [value], [timestamp]
        if where is not None and not where(*record, note)[0]:
            return None
        new_key = key if key_of is None else key_of(*record, note)[0]
        if skips and new_key is None:
            return runtime.drop(node, "null_key")
        if explode is None:
            return forward(new_key, value if value_of is None else value_of(*record, note)[0], timestamp)
        for new_value in explode(*record, note)[0]:
            forward(new_key, new_value, timestamp)
        return None

    return process


@column_operator.register(Select)
@column_operator.register(SelectRekeyed)
def _select_columns(node: Select, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    dicts = node.selection.compile()
    structs = cache(lambda: node.selection.compile(structs=True))
    forwards_structs = takes_structs(node, runtime.plan.readers)

    def process_columns(batch: ColumnBatch) -> None:
        note = _note(node, runtime, batch)
        compiled = structs() if are_structs(batch.values) else dicts
        if compiled.where is not None:
            batch = batch.filtered(compiled.where(batch.keys, batch.values, batch.timestamps, note))
            note = _note(node, runtime, batch)
        if not batch.rows:
            return
        keys = batch.keys if compiled.key is None else compiled.key(batch.keys, batch.values, batch.timestamps, note)
        if compiled.skips_null_keys and None in keys:  # before values are computed, as for single records
            for _ in range(keys.count(None)):
                runtime.drop(node, "null_key")
            batch, keys = batch.filtered([key is not None for key in keys]), [key for key in keys if key is not None]
            note = _note(node, runtime, batch)
        result = _computed(batch, keys, compiled, note)
        if compiled is not dicts and not node.selection.replaces_values and not forwards_structs:
            result = result.with_values(as_dicts(result.values))
        forward(result)

    return process_columns


def _computed(batch: ColumnBatch, keys: list[Any], compiled: CompiledSelection, note: NoteError) -> ColumnBatch:
    """Return the records with new keys, and with the values that are computed from the keys before."""
    columns = batch.keys, batch.values, batch.timestamps
    if compiled.explode is not None:
        lists = compiled.explode(*columns, note)
        counts = list(map(len, lists))
        return batch.with_keys(keys).repeated(counts).with_values([value for values in lists for value in values])
    values = batch.values if compiled.value is None else compiled.value(*columns, note)
    return batch.with_keys(keys).with_values(values)


def _note(node: Select, runtime: Runtime, batch: ColumnBatch | None) -> NoteError:
    """Return what counts errors of the records of a batch, or of the current record."""
    context, name = runtime.context, node.name or ""

    def note(part: str, error: Exception, row: int) -> None:
        def origin() -> Origin:
            current = context.topic, context.partition, context.offset
            topic, partition, offset = current if batch is None else batch.locate(row)
            return Origin(
                query=node.selection.query,
                step=name,
                part=part,
                expression=node.selection.expression_of(part),
                topic=topic,
                partition=partition,
                offset=offset,
            )

        context.errors.note(f"{name}: {part}", error, origin)

    return note
