"""Call a function with the values of many records as a data frame.

If the function raises, the records are halved until the ones that it fails for are alone: the error policy applies to
these, and not to their neighbors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from millstream.errors import DefinitionError
from millstream.foundation.value_columns import fields_of, library, spread
from millstream.functions import Function
from millstream.operators.failure import Failure
from millstream.plan.batched import FrameKind, MapBatches


class FrameCalls:
    """Calls a function with frames of limited size, and takes its results apart into one value per record."""

    def __init__(self, step: str, function: Function, frame: FrameKind, max_records: int, result_type: Any) -> None:
        self._step = step
        self._function = function
        self._frame = frame
        self._max_records = max_records
        self._convert = None if result_type is Any else partial(msgspec.convert, type=list[result_type])

    @classmethod
    def of(cls, node: MapBatches) -> FrameCalls:
        """Return the calls of a step; results become objects of the type that the step declares, if any."""
        result_type = getattr(node.value, "type", Any)
        return cls(node.name or node.verb, node.mapper, node.frame, node.max_records, result_type)

    def __call__(self, keys: list[Any], values: list[Any]) -> list[Any]:
        """Return the results in the order of the records."""
        results: list[Any] = []
        for start in range(0, len(values), self._max_records):
            part = slice(start, start + self._max_records)
            results += self._halving(keys[part], values[part])
        return results

    def _halving(self, keys: list[Any], values: list[Any]) -> list[Any]:
        try:
            return self._call(keys, values)
        except DefinitionError:
            raise
        except Exception as error:
            if len(values) == 1:
                return [Failure(error)]
        middle = len(values) // 2
        return self._halving(keys[:middle], values[:middle]) + self._halving(keys[middle:], values[middle:])

    def _call(self, keys: list[Any], values: list[Any]) -> list[Any]:
        frame = _to_frame(values, self._frame)
        result = self._function.call(frame) if self._function.arity == 1 else self._function.call(keys, frame)
        rows = _to_rows(result)
        if len(rows) != len(values):
            raise DefinitionError(
                f"the function of step {self._step!r} got {len(values)} rows and returned {len(rows)}",
                hint="return one row per record, in the same order; filter before or after the step",
                node=self._step,
            )
        return rows if self._convert is None else self._convert(rows)


def _to_frame(values: list[Any], kind: FrameKind) -> Any:
    """Return a frame with a column per field, or with the column ``value`` if the values have no fields."""
    columns = spread([fields_of("value", value) for value in values], ["value"])
    table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
    if kind == "arrow":
        return table
    return table.to_pandas() if kind == "pandas" else library(kind, "map_batches").from_arrow(table)


def _to_rows(result: Any) -> list[Any]:
    """Return one object per row: a dictionary for a frame, a value for a series, an array or a list."""
    if isinstance(result, list):
        return result
    kind = f"{type(result).__module__.partition('.')[0]}.{type(result).__name__}"
    if kind in {"pandas.DataFrame", "polars.DataFrame"}:
        return list(result.to_dict("records") if kind.startswith("pandas") else result.to_dicts())
    if isinstance(result, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        return list(result.to_pylist())
    if kind == "polars.Series":
        return list(result.to_list())
    if kind in {"pandas.Series", "numpy.ndarray"}:
        return list(result.tolist())
    raise DefinitionError(
        f"a function of map_batches returned {type(result).__qualname__}, which has no rows",
        hint="return a table or data frame, a series or array, or a list",
    )
