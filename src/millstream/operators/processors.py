"""Processors: user code with stores and timers that forwards records itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from millstream.durations import Duration
from millstream.errors import DefinitionError, ProcessingError
from millstream.foundation.headers import HeadersLike, check_timestamp, header_pairs
from millstream.foundation.text import error_text, shown
from millstream.operators.attached import AttachedStores
from millstream.operators.runtime import Process as Forward
from millstream.operators.runtime import Runtime, operator
from millstream.plan.processors import Process, ProcessValues, TransformValues
from millstream.processors import SAME, Clock, UserStep, punctuation, punctuations_of
from millstream.records import Headers, Record

NO_KEY: Any = object()
"""The key while there is no current record."""


class Children(NamedTuple):
    """The readers of a processor: all of them, and each by its name."""

    all: Forward
    named: Mapping[str, Forward]


class StepContext:
    """The context of a processor or transformer during one batch."""

    def __init__(self, node: Process | ProcessValues | TransformValues, children: Children, runtime: Runtime) -> None:
        assert node.name is not None
        self.app, self.node = runtime.app, node.name
        self.task, self.partition, self.wall_time = runtime.task_name, runtime.partition, runtime.wall_time
        self.engine_error: Exception | None = None
        """An error of the engine or of a step downstream, which user code must not handle."""
        self.key: Any = NO_KEY
        self.step: UserStep | None = None
        self.store = AttachedStores(node, node.stores, runtime, self._set_engine_error)
        self._all_children, self._children = children
        self._current = runtime.context
        self._timers = runtime.timers
        self._keeps_key = not isinstance(node, Process)

    @property
    def stream_time(self) -> int:
        return self._current.stream_time

    @property
    def timestamp(self) -> int:
        return self._current.timestamp

    @property
    def headers(self) -> Headers:
        return self._current.headers

    @property
    def schedules(self) -> tuple[str, ...]:
        return self._timers.active(self.node)

    def forward(
        self,
        record: Record | None = None,
        /,
        *,
        key: Any = SAME,
        value: Any = SAME,
        timestamp: int = SAME,
        headers: HeadersLike = SAME,
        to: str | None = None,
    ) -> None:
        """Forward a record."""
        if record is None:
            key, value = None if key is SAME else key, None if value is SAME else value
            timestamp = self._now() if timestamp is SAME else timestamp
            headers = () if headers is SAME else headers
        else:
            if key is SAME:
                key = record.key
            if value is SAME:
                value = record.value
            if timestamp is SAME:
                timestamp = record.timestamp
            if headers is SAME:
                headers = record.headers
        check_timestamp(timestamp)
        if self._keeps_key and key != self.key:
            raise self._forward_error(key)
        reader = self._all_children if to is None else self._child(to)
        current = self._current
        pairs: Any = header_pairs(headers) if headers and headers is not current.headers else headers
        try:
            if not pairs and not current.has_headers:
                reader(key, value, timestamp)
                return
            saved = current.override_headers(pairs or ())
            try:
                reader(key, value, timestamp)
            finally:
                current.restore_headers(saved)
        except Exception as error:
            self._set_engine_error(error)
            raise

    def schedule(
        self,
        method: Callable[[int], Any],
        *,
        every: Duration,
        on: Clock = "stream",
        start: int | None = None,
        name: str | None = None,
    ) -> None:
        """Call a method at a fixed interval."""
        method_name = getattr(method, "__name__", repr(method))
        if getattr(self.step, method_name, None) != method:
            raise DefinitionError(
                f"cannot schedule {method_name!r}: it is not a method of this processor",
                hint="later batches find it by its name; pass self.my_method",
            )
        self._timers.schedule(self.node, punctuation(method_name, every, on, start, name))

    def cancel(self, method: Callable[[int], Any] | str) -> bool:
        """Cancel a schedule."""
        name = method if isinstance(method, str) else getattr(method, "__name__", repr(method))
        return self._timers.cancel(self.node, name)

    def _now(self) -> int:
        """Return the time of a new record: the current timestamp or, before the first record, wall-clock time."""
        now = self._current.timestamp
        return self.wall_time if now < 0 else now

    def _child(self, name: str) -> Forward:
        if name not in self._children:
            names = ", ".join(sorted(self._children)) or "none"
            raise DefinitionError(
                f"no step {name!r} reads from {self.node!r} (its readers: {names})",
                hint="give a step that reads from it name=, and forward to that name",
                child=name,
            )
        return self._children[name]

    def _forward_error(self, key: Any) -> DefinitionError:
        if self.key is NO_KEY:
            return DefinitionError(
                f"{self.node!r} keeps keys, so it cannot forward without a current record", hint="use process()"
            )
        return DefinitionError(
            f"{self.node!r} keeps keys, so it cannot forward {shown(key):.60} for {shown(self.key):.60}",
            hint="use process()",
        )

    def _set_engine_error(self, error: Exception) -> None:
        self.engine_error = error


def create_step(node: Process | ProcessValues | TransformValues, context: StepContext) -> UserStep:
    """Create the user object of this batch."""
    try:
        step: UserStep = node.factory()
        step.context = context
        context.step = step
        step.init()
    except Exception as error:
        if context.engine_error is not None:
            raise context.engine_error from None
        raise ProcessingError(
            f"the processor of {node.name!r} could not start a batch: {type(error).__name__}: {error_text(error)}",
            hint="check its __init__ and init",
            node=node.name,
        ) from error
    return step


def start_step(node: Process | ProcessValues | TransformValues, context: StepContext, runtime: Runtime) -> UserStep:
    """Create the user object of this batch, and register its timers and its ``close``."""
    step = create_step(node, context)

    def fire(method: str, now: int) -> None:
        suspended = runtime.context.suspend(now)
        context.key = NO_KEY
        _call_user_code(node, context, runtime, lambda: getattr(step, method)(now))
        runtime.context.resume(suspended)

    runtime.timers.attach(context.node, fire, punctuations_of(type(step)))
    if type(step).close is not UserStep.close:
        runtime.on_flush(node, lambda: _call_user_code(node, context, runtime, step.close), last=True)
    return step


def _call_user_code(
    node: Process | ProcessValues | TransformValues, context: StepContext, runtime: Runtime, call: Callable[[], Any]
) -> None:
    """Call user code without a current record, and apply the error policy to what it raises."""
    try:
        call()
    except Exception as error:
        if context.engine_error is None:
            runtime.handle_error(node, error, None)
    if context.engine_error is not None:
        raise context.engine_error


@operator.register(Process)
@operator.register(ProcessValues)
def process_of(node: Process | ProcessValues, children: Children, runtime: Runtime) -> Forward:
    """Return what passes each record to the user's processor."""
    context = StepContext(node, children, runtime)
    handle: Callable[[Record], Any] = start_step(node, context, runtime).process  # type: ignore[attr-defined]
    record, handle_error = runtime.context.record, runtime.handle_error

    def process(key: Any, value: Any, timestamp: int) -> None:
        context.key = key
        try:
            handle(record(key, value, timestamp))
        except Exception as error:
            if context.engine_error is None:
                return handle_error(node, error, key, timestamp)
        if context.engine_error is not None:
            raise context.engine_error
        return None

    return process
