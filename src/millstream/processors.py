"""Processors and value transformers, for what verbs cannot express, with their stores and timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.headers import HeadersLike
from millstream.foundation.names import check_name, snake_case
from millstream.foundation.type_variables import Key, KeyIn, Result, T, Value, ValueIn
from millstream.records import Headers, Record
from millstream.serdes import Serde, SerdeLike, serde_for

Clock: TypeAlias = Literal["stream", "wall"]
M = TypeVar("M", bound=Callable[..., Any])
SAME: Any = type("Same", (), {"__repr__": lambda _: "SAME"})()
"""Stands for a part of a record that is passed on unchanged."""

_MARK = "__millstream_punctuations__"


# Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """A store that a processor declares; with ``name`` all processors that declare the name share it."""

    name: str | None = None
    value: Serde | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name("store", self.name)

    @property
    def kind(self) -> str:
        """The name of this kind of store in plans and messages."""
        return snake_case(type(self).__name__.removesuffix("Spec")) + "_store"

    @property
    def kept_for(self) -> int | None:
        """How many milliseconds entries are kept, None for always; decides how they are stored."""
        duration: int | None = getattr(self, "retention", None) or getattr(self, "history", None)
        return duration


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueSpec(StoreSpec):
    """One value for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(StoreSpec):
    """Values by key and time, kept for ``retention`` milliseconds."""

    retention: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(StoreSpec):
    """Values by key, start and end, kept for ``retention`` milliseconds."""

    retention: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedSpec(StoreSpec):
    """Values of each key with the time when they were valid, kept for ``history`` milliseconds."""

    history: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec(StoreSpec):
    """The rows of the app's table ``name``; read only."""


def key_value_store(*, value: SerdeLike = None, name: str | None = None) -> KeyValueSpec:
    """Declare a store with one value for each key.

    It belongs to the step that uses the processor; with ``name`` several steps can share it.
    """
    return KeyValueSpec(name=name, value=serde_for(value))


def window_store(*, retention: Duration, value: SerdeLike = None, name: str | None = None) -> WindowSpec:
    """Declare a store of values by key and time; entries older than ``retention`` are deleted."""
    return WindowSpec(name=name, value=serde_for(value), retention=_positive("retention", retention))


def session_store(*, retention: Duration, value: SerdeLike = None, name: str | None = None) -> SessionSpec:
    """Declare a store of values by key, start and end; entries that ended ``retention`` ago are deleted."""
    return SessionSpec(name=name, value=serde_for(value), retention=_positive("retention", retention))


def versioned_store(*, history: Duration, value: SerdeLike = None, name: str | None = None) -> VersionedSpec:
    """Declare a store that also finds the value of a key that was valid at a time, up to ``history`` ago."""
    return VersionedSpec(name=name, value=serde_for(value), history=_positive("history", history))


def table_store(name: str) -> TableSpec:
    """Declare read-only access to a table of the same app; the table and the processor then share tasks."""
    return TableSpec(name=name)


# Timers


@dataclass(frozen=True, slots=True)
class Punctuation:
    """When a method is called: every ``every`` milliseconds of stream time or wall-clock time."""

    name: str
    method: str
    every: int
    on: Clock
    start: int | None = None


def punctuation(
    method: str, every: Duration, on: Clock = "stream", start: int | None = None, name: str | None = None
) -> Punctuation:
    """Return a checked punctuation."""
    if on not in ("stream", "wall"):
        raise DefinitionError(f"clock {on!r} is unknown", hint='use on="stream" or on="wall"')
    return Punctuation(name or method, method, _positive("every", every), on, start)


def punctuate(
    *, every: Duration, on: Clock = "stream", start: int | None = None, name: str | None = None
) -> Callable[[M], M]:
    """Call a method of a processor periodically, with the time.

    On ``"stream"`` time it is called after the first record and then whenever stream time has passed a multiple of
    ``every``; only records advance that time. On the ``"wall"`` clock it is also called while no records arrive.
    Missed calls are not made up for. ``start`` (milliseconds since 1970) shifts the multiples.
    """

    def mark(method: M) -> M:
        marked: tuple[Punctuation, ...] = getattr(method, _MARK, ())
        setattr(method, _MARK, (punctuation(method.__name__, every, on, start, name), *marked))
        return method

    return mark


def punctuations_of(kind: type) -> tuple[Punctuation, ...]:
    """Return the punctuations of a class, in the order of definition."""
    methods = {name: method for base in reversed(kind.__mro__) for name, method in vars(base).items()}
    punctuations = tuple(each for method in methods.values() for each in getattr(method, _MARK, ()))
    names = [each.name for each in punctuations]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{kind.__name__} has two punctuations {name!r}", hint="give one of them name=")
    return punctuations


# Base classes for user code


class ProcessorContext(Protocol[KeyIn, ValueIn]):
    """What a processor can see and do, as ``self.context``; it forwards ``KeyIn`` and ``ValueIn``."""

    @property
    def app(self) -> str:
        """The id of the app."""

    @property
    def node(self) -> str:
        """The name of the step."""

    @property
    def task(self) -> str:
        """The stage and partition of the task, ``stage/partition``."""

    @property
    def partition(self) -> int:
        """The partition of the task."""

    @property
    def stream_time(self) -> int:
        """The highest timestamp that the task has seen, the current record included; -1 before the first record."""

    @property
    def wall_time(self) -> int:
        """The wall-clock time of the batch; constant during a batch, and the same if the batch runs again."""

    @property
    def timestamp(self) -> int:
        """The timestamp of the current record; in a punctuation its time."""

    @property
    def headers(self) -> Headers:
        """The headers of the current record."""

    @property
    def schedules(self) -> tuple[str, ...]:
        """The names of the punctuations that are active."""

    def store(self, name: str) -> Any:
        """Return the store that the processor declares under this name."""

    def forward(
        self,
        record: Record | None = None,
        /,
        *,
        key: KeyIn = SAME,
        value: ValueIn = SAME,
        timestamp: int = SAME,
        headers: HeadersLike = SAME,
        to: str | None = None,
    ) -> None:
        """Forward a record, with the given parts replaced; without ``record`` a new one.

        A new record has no headers, and the timestamp of the current record or punctuation. ``to`` names the only
        following step that gets it; by default all of them do. Headers are pairs or a dict; text is encoded.
        """

    def schedule(
        self,
        method: Callable[[int], Any],
        *,
        every: Duration,
        on: Clock = "stream",
        start: int | None = None,
        name: str | None = None,
    ) -> None:
        """Call a method of this processor periodically, in later batches too; see ``punctuate``.

        ``name``, by default that of the method, is for ``cancel``. Scheduling an active name again changes nothing.
        """

    def cancel(self, method: Callable[[int], Any] | str) -> bool:
        """End a punctuation, by its method or name; False if it is not active."""


class UserStep:
    """Base of processors and transformers: declared stores and a context; an object lives for one batch."""

    stores: ClassVar[Mapping[str, StoreSpec]] = MappingProxyType({})
    """The stores that it uses, by local name."""
    context: ProcessorContext

    def init(self) -> None:
        """Prepare for a batch; context and stores are available."""

    def close(self) -> None:
        """End a batch, before it is committed; records can still be forwarded."""


class Processor(UserStep, Generic[KeyIn, ValueIn, Key, Value]):
    """A custom step: process each record, keep state in stores, forward any records.

    An object lives for one batch, so keep lasting state in a store. ``Processor[str, Ride, str, float]`` gets records
    of ``str`` and ``Ride`` and forwards ``str`` and ``float``.

    >>> class Dedupe(Processor):
    ...     stores = {"seen": key_value_store()}
    ...
    ...     def process(self, record):
    ...         seen = self.context.store("seen")
    ...         if record.key not in seen:
    ...             seen.put(record.key, True)
    ...             self.context.forward(record)
    """

    context: ProcessorContext[Key, Value]

    def process(self, record: Record[KeyIn, ValueIn]) -> None:
        """Process a record."""
        raise NotImplementedError


class ValueTransformer(UserStep, Generic[KeyIn, ValueIn, Result]):
    """Computes the value of a table's row from its key and value; can use stores.

    An object lives for one batch, so keep lasting state in a store.
    """

    def transform(self, key: KeyIn, value: ValueIn | None) -> Result | None:
        """Return the new value; ``value`` is None for a deleted row, and returning None deletes the result's row."""
        raise NotImplementedError


Factory: TypeAlias = Callable[[], T]
"""A class, or a function without arguments, that creates a processor or transformer."""


@dataclass(frozen=True, slots=True)
class StoreUse:
    """A store and its local name in a processor."""

    local: str
    spec: StoreSpec

    def __str__(self) -> str:
        options = {name: getattr(self.spec, name, None) for name in ("name", "retention", "history")}
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        return " ".join([f"{self.local}:", self.spec.kind, *given])


def checked(verb: str, factory: Factory[UserStep], kind: type[UserStep]) -> dict[str, Any]:
    """Return what a plan needs to know about a processor; raise if ``factory`` creates none."""
    step = _sample(verb, factory, kind)
    facts = {"factory": factory, "stores": _uses_of(step), "starts": _needs_start(step)}
    for base, method in ((Processor, "process"), (ValueTransformer, "transform")):
        if isinstance(step, base) and getattr(type(step), method) is getattr(base, method):
            raise DefinitionError(
                f"{type(step).__name__} has no method {method}", hint=f"write one: def {method}(self, …)"
            )
    return facts


def _sample(verb: str, factory: Any, kind: type[UserStep]) -> UserStep:
    """Create one object of a processor for inspection."""
    noun = "class" if isinstance(factory, type) else "function"
    if not callable(factory):
        raise DefinitionError(
            f"{verb}() expects a subclass of {kind.__name__}, not {factory!r}",
            hint="pass the class itself: an object of it is created for each batch",
        )
    try:
        step = factory()
    except TypeError as error:
        raise DefinitionError(
            f"{verb}() cannot create a {kind.__name__} with the {noun} {factory!r}: {error}",
            hint="it must take no arguments; wrap it if it needs some: lambda: Mine(3)",
        ) from error
    if not isinstance(step, kind):
        raise DefinitionError(
            f"{verb}() expects a {kind.__name__}, but {factory!r} creates {step!r:.60}",
            hint=f"make it a subclass: class Mine({kind.__name__})",
        )
    return step


def _uses_of(step: UserStep) -> tuple[StoreUse, ...]:
    """Return the stores that a processor declares."""
    for name, spec in step.stores.items():
        if not isinstance(spec, StoreSpec):
            raise DefinitionError(
                f"{type(step).__name__} declares {spec!r} as its store {name!r}",
                hint=f'for example stores = {{"{name}": key_value_store()}}',
            )
        check_name("store", name)
    return tuple(StoreUse(name, spec) for name, spec in step.stores.items())


def _needs_start(step: UserStep) -> bool:
    """Return whether a step has work before the first record: wall-clock timers, or its own ``init``."""
    has_wall_timers = any(each.on == "wall" for each in punctuations_of(type(step)))
    return has_wall_timers or type(step).init is not UserStep.init


def _positive(option: str, duration: Duration) -> int:
    length = milliseconds(duration)
    if length < 1:
        raise DefinitionError(f"{option}={duration!r} is not valid", hint='use 1 ms or more, such as "5 min"')
    return length
