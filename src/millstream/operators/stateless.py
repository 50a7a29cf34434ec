"""Stateless steps.

In the two most common steps, functions of the value alone are called directly: a wrapper would cost as much as the
step itself.
"""

from __future__ import annotations

from typing import Any

from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Merge,
    Peek,
    SelectKey,
    Split,
)


@operator.register(Filter)
def _filter(node: Filter, forward: Process, runtime: Runtime) -> Process:
    predicate, handle_error, negate = node.predicate.bind(runtime.context), runtime.handle_error, node.negate
    test = node.predicate.call

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            holds = predicate(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        if not holds if negate else holds:
            forward(key, value, timestamp)

    def process_value(key: Any, value: Any, timestamp: int) -> None:
        try:
            holds = test(value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        if not holds if negate else holds:
            forward(key, value, timestamp)

    return process_value if node.predicate.arity == 1 else process


@operator.register(Map)
def _map(node: Map, forward: Process, runtime: Runtime) -> Process:
    mapper, handle_error = node.mapper.bind(runtime.context), runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_key, new_value = mapper(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        forward(new_key, new_value, timestamp)

    return process


@operator.register(MapValues)
def _map_values(node: MapValues, forward: Process, runtime: Runtime) -> Process:
    mapper, handle_error = node.mapper.bind(runtime.context), runtime.handle_error
    call = node.mapper.call

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_value = mapper(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        forward(key, new_value, timestamp)

    def process_value(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_value = call(value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        forward(key, new_value, timestamp)

    return process_value if node.mapper.arity == 1 else process


@operator.register(FlatMap)
def _flat_map(node: FlatMap, forward: Process, runtime: Runtime) -> Process:
    mapper, handle_error = node.mapper.bind(runtime.context), runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            pairs = [(new_key, new_value) for new_key, new_value in mapper(key, value)]
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        for new_key, new_value in pairs:
            forward(new_key, new_value, timestamp)

    return process


@operator.register(FlatMapValues)
def _flat_map_values(node: FlatMapValues, forward: Process, runtime: Runtime) -> Process:
    mapper, handle_error = node.mapper.bind(runtime.context), runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_values = list(mapper(key, value))
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        for new_value in new_values:
            forward(key, new_value, timestamp)

    return process


@operator.register(SelectKey)
def _select_key(node: SelectKey, forward: Process, runtime: Runtime) -> Process:
    mapper, handle_error = node.mapper.bind(runtime.context), runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_key = mapper(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        forward(new_key, value, timestamp)

    return process


@operator.register(Peek)
@operator.register(Foreach)
def _peek(node: Peek | Foreach, forward: Process, runtime: Runtime) -> Process:
    action, handle_error = node.action.bind(runtime.context), runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            action(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        forward(key, value, timestamp)

    return process


@operator.register(Merge)
@operator.register(Branch)
def _forward(_node: Merge | Branch, forward: Process, _runtime: Runtime) -> Process:
    return forward


@operator.register(Split)
def _split(node: Split, branches: tuple[Process, Process], runtime: Runtime) -> Process:
    predicate, handle_error = node.predicate.bind(runtime.context), runtime.handle_error
    matching, others = branches

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            holds = predicate(key, value)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        (matching if holds else others)(key, value, timestamp)

    return process
