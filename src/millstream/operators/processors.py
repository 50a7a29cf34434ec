"""The work of processors: user code with stores, timers and a say in where records go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from millstream.durations import Duration
from millstream.errors import DefinitionError, ProcessingError
from millstream.operators.attached import AttachedStores
from millstream.operators.runtime import Process as Forward
from millstream.operators.runtime import Runtime, operator
from millstream.plan.processors import Process, ProcessValues, TransformValues
from millstream.processors import SAME, Clock, UserStep, punctuation, punctuations_of
from millstream.records import Headers, Record

NO_KEY: Any = object()
"""No record is at hand."""


class Children(NamedTuple):
    """Who reads from a processor: all of them, and each by its name."""

    everyone: Forward
    named: Mapping[str, Forward]


class StepContext:
    """What one step in the user's words sees during one batch."""

    def __init__(self, node: Process | ProcessValues | TransformValues, children: Children, runtime: Runtime) -> None:
        assert node.name is not None
        self.app, self.node = runtime.app, node.name
        self.task, self.partition, self.wall_time = runtime.task_name, runtime.partition, runtime.wall_time
        self.trouble: Exception | None = None
        """An error of the engine or of a step behind; it is not for user code to deal with."""
        self.key: Any = NO_KEY
        self.step: UserStep | None = None
        self.store = AttachedStores(node, node.stores, runtime, self._note)
        self._everyone, self._children = children
        self._at_hand = runtime.context
        self._timers = runtime.timers
        self._keeps_key = not isinstance(node, Process)

    @property
    def stream_time(self) -> int:
        return self._at_hand.stream_time

    @property
    def timestamp(self) -> int:
        return self._at_hand.timestamp

    @property
    def headers(self) -> Headers:
        return self._at_hand.headers

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
        headers: Headers = SAME,
        to: str | None = None,
    ) -> None:
        """Pass a record on."""
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
        if type(timestamp) is not int or timestamp < 0 or (self._keeps_key and key != self.key):
            raise self._refusal(key, timestamp)
        reader = self._everyone if to is None else self._child(to)
        at_hand = self._at_hand
        try:
            if not headers and not at_hand.has_headers:
                reader(key, value, timestamp)
                return
            before = at_hand.carry(tuple(headers))
            try:
                reader(key, value, timestamp)
            finally:
                at_hand.restore(before)
        except Exception as error:
            self._note(error)
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
        """Have a method called again and again."""
        written = getattr(method, "__name__", repr(method))
        if getattr(self.step, written, None) != method:
            raise DefinitionError(
                f"cannot schedule {written!r}: it is not a method of this processor",
                hint="a later batch must find it again by its name; pass self.my_method",
            )
        self._timers.schedule(self.node, punctuation(written, every, on, start, name))

    def cancel(self, method: Callable[[int], Any] | str) -> bool:
        """End a schedule."""
        name = method if isinstance(method, str) else getattr(method, "__name__", repr(method))
        return self._timers.cancel(self.node, name)

    def _now(self) -> int:
        """Return the time of a new record: that of what is at hand or, before the first record, of the wall clock."""
        now = self._at_hand.timestamp
        return self.wall_time if now < 0 else now

    def _child(self, name: str) -> Forward:
        if name not in self._children:
            known = ", ".join(sorted(self._children)) or "none"
            raise DefinitionError(
                f"no step {name!r} reads from {self.node!r} (its readers: {known})",
                hint="give a step that does name=, and forward to that",
                child=name,
            )
        return self._children[name]

    def _refusal(self, key: Any, timestamp: int) -> DefinitionError:
        if type(timestamp) is not int or timestamp < 0:
            return DefinitionError(
                f"cannot forward a record with timestamp {timestamp!r}", hint="use whole milliseconds, 0 or more"
            )
        if self.key is NO_KEY:
            return DefinitionError(
                f"{self.node!r} keeps keys, so it cannot forward while no record is at hand", hint="use process()"
            )
        return DefinitionError(
            f"{self.node!r} keeps keys, so it cannot forward {key!r:.60} for {self.key!r:.60}", hint="use process()"
        )

    def _note(self, error: Exception) -> None:
        self.trouble = error


def begun(node: Process | ProcessValues | TransformValues, context: StepContext) -> UserStep:
    """Make the object of this batch."""
    try:
        step: UserStep = node.factory()
        step.context = context
        context.step = step
        step.init()
    except Exception as error:
        if context.trouble is not None:
            raise context.trouble from None
        raise ProcessingError(
            f"the processor of {node.name!r} could not begin a batch: {type(error).__name__}: {error}",
            hint="see its __init__ and init",
            node=node.name,
        ) from error
    return step


def started(node: Process | ProcessValues | TransformValues, context: StepContext, runtime: Runtime) -> UserStep:
    """Make the object of this batch and have its timers and its end called."""
    step = begun(node, context)

    def fire(method: str, now: int) -> None:
        aside = runtime.context.step_aside(now)
        context.key = NO_KEY
        _guarded(node, context, runtime, lambda: getattr(step, method)(now))
        runtime.context.step_back(aside)

    runtime.timers.attach(context.node, fire, punctuations_of(type(step)))
    if type(step).close is not UserStep.close:
        runtime.on_flush(node, lambda: _guarded(node, context, runtime, step.close), last=True)
    return step


def _guarded(
    node: Process | ProcessValues | TransformValues, context: StepContext, runtime: Runtime, call: Callable[[], Any]
) -> None:
    """Call user code without a record; what it raises goes by the app's policy."""
    try:
        call()
    except Exception as error:
        if context.trouble is None:
            runtime.failed(node, error, None)
    if context.trouble is not None:
        raise context.trouble


@operator.register(Process)
@operator.register(ProcessValues)
def _process(node: Process | ProcessValues, children: Children, runtime: Runtime) -> Forward:
    context = StepContext(node, children, runtime)
    handle: Callable[[Record], Any] = started(node, context, runtime).process  # type: ignore[attr-defined]
    record, failed = runtime.context.record, runtime.failed

    def process(key: Any, value: Any, timestamp: int) -> None:
        context.key = key
        try:
            handle(record(key, value, timestamp))
        except Exception as error:
            if context.trouble is None:
                return failed(node, error, key)
        if context.trouble is not None:
            raise context.trouble
        return None

    return process
