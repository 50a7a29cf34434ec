"""What users write who need more than verbs: processors, value transformers, their stores and their timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name, snake_case
from millstream.records import Headers, Record
from millstream.serdes import Serde, SerdeLike, serde_for

Clock: TypeAlias = Literal["stream", "wall"]
M = TypeVar("M", bound=Callable[..., Any])
SAME: Any = type("Same", (), {"__repr__": lambda _: "SAME"})()
"""Stands for a part of a record that is passed on as it came."""

_MARK = "__millstream_punctuations__"


# Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """What a processor says about a store; with ``name`` it is shared by all who ask for that name."""

    name: str | None = None
    value: Serde | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name("store", self.name)

    @property
    def kind(self) -> str:
        """The word for this kind of store in plans and messages."""
        return snake_case(type(self).__name__.removesuffix("Spec")) + "_store"

    @property
    def kept_for(self) -> int | None:
        """For how many milliseconds entries are kept, None for always; it decides how they are stored."""
        kept: int | None = getattr(self, "retention", None) or getattr(self, "history", None)
        return kept


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
    """Values of each key and when they were valid, for ``history`` milliseconds back."""

    history: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec(StoreSpec):
    """The rows of a table of the app, which is named by ``name``; read only."""


def key_value_store(*, value: SerdeLike = None, name: str | None = None) -> KeyValueSpec:
    """Declare a store with one value for each key.

    It belongs to the step that uses the processor, unless ``name`` makes it one that several steps share.
    """
    return KeyValueSpec(name=name, value=serde_for(value))


def window_store(*, retention: Duration, value: SerdeLike = None, name: str | None = None) -> WindowSpec:
    """Declare a store of values by key and time; entries older than ``retention`` go by themselves."""
    return WindowSpec(name=name, value=serde_for(value), retention=_positive("retention", retention))


def session_store(*, retention: Duration, value: SerdeLike = None, name: str | None = None) -> SessionSpec:
    """Declare a store of values by key, start and end; what ended longer than ``retention`` ago goes by itself."""
    return SessionSpec(name=name, value=serde_for(value), retention=_positive("retention", retention))


def versioned_store(*, history: Duration, value: SerdeLike = None, name: str | None = None) -> VersionedSpec:
    """Declare a store of values by key that also knows which value was valid at a time, ``history`` back."""
    return VersionedSpec(name=name, value=serde_for(value), history=_positive("history", history))


def table_store(name: str) -> TableSpec:
    """Ask for the rows of a table of the same app, read only; the table and the processor then share their tasks."""
    return TableSpec(name=name)


# Timers


@dataclass(frozen=True, slots=True)
class Punctuation:
    """When a method is to be called: every so many milliseconds of stream time or of the wall clock."""

    name: str
    method: str
    every: int
    on: Clock
    start: int | None = None


def punctuation(
    method: str, every: Duration, on: Clock = "stream", start: int | None = None, name: str | None = None
) -> Punctuation:
    """Check when a method is to be called."""
    if on not in ("stream", "wall"):
        raise DefinitionError(f"there is no clock {on!r} to punctuate on", hint='use on="stream" or on="wall"')
    return Punctuation(name or method, method, _positive("every", every), on, start)


def punctuate(
    *, every: Duration, on: Clock = "stream", start: int | None = None, name: str | None = None
) -> Callable[[M], M]:
    """Have a method of a processor called with the time, again and again.

    On ``"stream"`` time it is called after the first record and then whenever stream time has passed a multiple of
    ``every``; only records move that time. On the ``"wall"`` clock it is called although no record comes. A time that
    was missed is not made up for. ``start`` (milliseconds since 1970) moves the grid.
    """

    def mark(method: M) -> M:
        known: tuple[Punctuation, ...] = getattr(method, _MARK, ())
        setattr(method, _MARK, (punctuation(method.__name__, every, on, start, name), *known))
        return method

    return mark


def punctuations_of(kind: type) -> tuple[Punctuation, ...]:
    """Return what ``@punctuate`` says in a class, in the order of writing."""
    methods = {name: method for one in reversed(kind.__mro__) for name, method in vars(one).items()}
    found = tuple(each for method in methods.values() for each in getattr(method, _MARK, ()))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{kind.__name__} has two punctuations {name!r}", hint="give one of them name=")
    return found


# What user code derives from


class ProcessorContext(Protocol):
    """What a processor knows and can do; ``self.context``."""

    @property
    def app(self) -> str:
        """The id of the app."""

    @property
    def node(self) -> str:
        """The name of the step."""

    @property
    def task(self) -> str:
        """The stage and the partition that this runs for, ``stage/partition``."""

    @property
    def partition(self) -> int:
        """The partition that this runs for."""

    @property
    def stream_time(self) -> int:
        """The highest timestamp that the task has met, the record at hand included; -1 before the first record."""

    @property
    def wall_time(self) -> int:
        """The time of the batch; it stands still while a batch runs, so that a batch that runs again sees the same."""

    @property
    def timestamp(self) -> int:
        """The timestamp of the record at hand; in a punctuation its time."""

    @property
    def headers(self) -> Headers:
        """The headers of the record at hand."""

    @property
    def schedules(self) -> tuple[str, ...]:
        """The names of the punctuations that are active."""

    def store(self, name: str) -> Any:
        """Return a store by the name under which the processor declares it."""

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
        """Pass a record on, with other parts where they are given; without ``record`` it is a new one.

        A new record has no headers, and the timestamp of the record or punctuation at hand. ``to`` names one of the
        steps that read from this one; by default all of them get it.
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
        """Have a method of this processor called from now on, also by later batches; see ``punctuate``.

        Its name, by default that of the method, is how it is cancelled. Asking for what is active changes nothing.
        """

    def cancel(self, method: Callable[[int], Any] | str) -> bool:
        """End a punctuation, by its method or name; False if it is not active."""


class UserStep:
    """What processors and transformers have in common: declared stores, a context, a life of one batch."""

    stores: ClassVar[Mapping[str, StoreSpec]] = MappingProxyType({})
    """The stores that it uses, by the names that it calls them."""
    context: ProcessorContext

    def init(self) -> None:
        """Prepare for a batch; context and stores are there."""

    def close(self) -> None:
        """End a batch, before it is committed; records can still be forwarded."""


class Processor(UserStep):
    """A step in your own words: look at each record, keep what you need in stores, forward what you like.

    An object lives for one batch: what has to last belongs in a store.

    >>> class Dedupe(Processor):
    ...     stores = {"seen": key_value_store()}
    ...
    ...     def process(self, record):
    ...         seen = self.context.store("seen")
    ...         if record.key not in seen:
    ...             seen.put(record.key, True)
    ...             self.context.forward(record)
    """

    def process(self, record: Record) -> None:
        """Deal with a record."""
        raise NotImplementedError


class ValueTransformer(UserStep):
    """Computes the value of a table's row from its key and value, with the help of stores.

    An object lives for one batch: what has to last belongs in a store.
    """

    def transform(self, key: Any, value: Any) -> Any:
        """Return the new value; ``value`` None is a deleted row, and returning None deletes it in the result."""
        raise NotImplementedError


Factory: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class StoreUse:
    """A store by the name that a processor calls it."""

    local: str
    spec: StoreSpec

    def __str__(self) -> str:
        known = {fact: getattr(self.spec, fact, None) for fact in ("name", "retention", "history")}
        facts = [f"{name}={fact}" for name, fact in known.items() if fact is not None]
        return " ".join([f"{self.local}:", self.spec.kind, *facts])


def checked(verb: str, factory: Factory, kind: type[UserStep]) -> dict[str, Any]:
    """Return what a plan has to know of a processor, if it is one."""
    step = _sample(verb, factory, kind)
    facts = {"factory": factory, "stores": _uses_of(step), "starts": _needs_start(step)}
    for base, method in ((Processor, "process"), (ValueTransformer, "transform")):
        if isinstance(step, base) and getattr(type(step), method) is getattr(base, method):
            raise DefinitionError(
                f"{type(step).__name__} has no method {method}", hint=f"write one: def {method}(self, …)"
            )
    return facts


def _sample(verb: str, factory: Any, kind: type[UserStep]) -> UserStep:
    """Make one object of a processor in order to see what it is."""
    what = "class" if isinstance(factory, type) else "function"
    if not callable(factory):
        raise DefinitionError(
            f"{verb}() wants a class derived from {kind.__name__}, not {factory!r}",
            hint="pass the class itself: a fresh object is made of it for each batch",
        )
    try:
        made = factory()
    except TypeError as error:
        raise DefinitionError(
            f"{verb}() cannot make a {kind.__name__} with the {what} {factory!r}: {error}",
            hint="it must take no arguments; wrap it if it needs some: lambda: Mine(3)",
        ) from error
    if not isinstance(made, kind):
        raise DefinitionError(
            f"{verb}() wants a {kind.__name__}, but {factory!r} makes {made!r:.60}",
            hint=f"derive it: class Mine({kind.__name__})",
        )
    return made


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
    """Whether a step has something to do before the first record: timers on the wall clock, or what ``init`` does."""
    on_the_wall = any(each.on == "wall" for each in punctuations_of(type(step)))
    return on_the_wall or type(step).init is not UserStep.init


def _positive(what: str, duration: Duration) -> int:
    found = milliseconds(duration)
    if found < 1:
        raise DefinitionError(f"{what}={duration!r} is not valid", hint='it must be 1 ms or more, such as "5 min"')
    return found
