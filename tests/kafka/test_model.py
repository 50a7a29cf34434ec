"""The steps of the exactly-once protocol in every order that attempts, crashes and late responses can cause.

The steps are the real ones (millstream.kafka.exactly_once_protocol); the cluster is a model of what a Kafka transaction
coordinator guarantees to clients of the first transaction protocol: epochs, fencing, and that the end of a transaction
applies to the transaction of its epoch that is open when it arrives.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from millstream.broker import Output
from millstream.errors import StateError
from millstream.kafka.exactly_once_protocol import AttemptLostError, ExactlyOnceProtocol
from millstream.kafka.marker import Marker, ProducerIdentity, is_own_marker_pending

IDENTITY = ProducerIdentity("app.stage.0", "first")


@dataclass
class Coordinator:
    """One transactional id: its epoch, its open transaction, the committed records, and delayed requests."""

    epoch: int = 0
    open: tuple[int, ...] = ()
    marked: Marker | None = None
    log: tuple[int, ...] = ()
    marker: Marker | None = None
    pending: Marker | None = None
    """A marker whose completion was lost by a broker that died; the end of the next transaction completes it."""
    late: tuple[int, ...] = ()
    """Epochs of delayed requests to end a transaction."""

    def check(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise AttemptLostError("fenced")

    def end(self, epoch: int) -> None:
        """Commit the open transaction if the epoch is current, even if it is a later transaction."""
        if epoch == self.epoch and (self.open or self.marked):
            self.log += self.open
            self.marker = self.marked or self.pending or self.marker
            self.open, self.marked, self.pending = (), None, None

    def state(self) -> tuple[object, ...]:
        """Return the state without epoch numbers: only whether requests have the current epoch matters."""
        return self.open, self.marked, self.log, self.marker, self.pending, self.late.count(self.epoch)


@dataclass
class ModelProducer:
    """A producer of the model; like the real one, it is discarded when the outcome of its last commit is unknown."""

    coordinator: Coordinator
    outcomes: list[str]
    """The outcomes of the next commits.

    "ok", "unacknowledged" (committed, but the response is lost), "late" (the request is delayed), or "pending"
    (committed and acknowledged, but a broker died: the producer is not reused and its marker is pending).
    """
    discards: bool = True
    epoch: int = -1
    reusable_marker: Marker | None = None
    acknowledged: Marker | None = None
    early: Marker | None = None
    """For a protocol that reads the marker too early."""
    _marked: Marker | None = None

    def open(self) -> None:
        self.epoch, self.reusable_marker = -1, None

    def init(self) -> None:
        self.coordinator.open, self.coordinator.marked = (), None  # the transaction of a previous producer is aborted
        self.coordinator.epoch += 1
        self.epoch = self.coordinator.epoch

    def read(self, outputs: Sequence[Output]) -> Marker | None:
        if self.coordinator.pending is None:
            return self.coordinator.marker
        if is_own_marker_pending(self.acknowledged, self.coordinator.marker):
            return self.acknowledged
        raise AttemptLostError("pending")

    def begin(self) -> None:
        self.reusable_marker = None

    def produce(self, outputs: Sequence[Output]) -> None:
        self.coordinator.check(self.epoch)
        self.coordinator.open += tuple(output.partition for output in outputs)

    def mark(self, sequence: int, outputs: Sequence[Output]) -> None:
        self.coordinator.check(self.epoch)
        self._marked = Marker(lineage=IDENTITY.lineage, sequence=sequence, rows=len(outputs))
        self.coordinator.marked = self._marked

    def commit(self) -> None:
        outcome = self.outcomes.pop(0) if self.outcomes else "ok"
        if outcome == "late":
            self.coordinator.late += (self.epoch,)
            if self.discards:
                raise AttemptLostError("no response")
            return  # a client that assumes success without an acknowledgement
        self.coordinator.check(self.epoch)
        before = self.coordinator.pending or self.coordinator.marker
        self.coordinator.end(self.epoch)
        if outcome == "unacknowledged":
            raise AttemptLostError("no response")
        self.acknowledged = self._marked
        if outcome == "pending":
            self.coordinator.marker, self.coordinator.pending = before, self._marked
        else:
            self.reusable_marker = self._marked


@dataclass
class Worker:
    """Publishes sequences in order, each until it is acknowledged; can die before any step."""

    producer: ModelProducer
    sequences: list[int]
    can_die: bool = False
    protocol: ExactlyOnceProtocol | None = None
    done: list[int] = field(default_factory=list)
    dead: bool = False

    def advance(self) -> None:
        if self.protocol is None:
            sequence = self.sequences[0]
            records = [Output("out", sequence, None)]  # the partition number represents the record
            self.protocol = ExactlyOnceProtocol(self.producer, IDENTITY, sequence, records)
        if not self.protocol.is_done:
            try:
                self.protocol.advance()
            except AttemptLostError:
                self.producer.open()
        if self.protocol.is_done:
            self.done.append(self.sequences.pop(0))
            self.protocol = None

    def state(self) -> tuple[object, ...]:
        step = None if self.protocol is None else self.protocol.step
        own = self.producer
        is_current = own.epoch == own.coordinator.epoch
        markers = own.reusable_marker, own.early, own.acknowledged, own._marked
        return step, tuple(self.sequences), self.dead, is_current, markers, tuple(own.outcomes)

    def copy_with(self, coordinator: Coordinator) -> Worker:
        own = replace(self.producer, coordinator=coordinator, outcomes=list(self.producer.outcomes))
        protocol = copy.copy(self.protocol)
        if protocol is not None:
            protocol.producer = own
        return replace(self, producer=own, sequences=list(self.sequences), protocol=protocol, done=list(self.done))


@dataclass
class World:
    """The coordinator and all workers, their possible next moves, and the invariants."""

    coordinator: Coordinator
    workers: list[Worker]

    def moves(self) -> Iterator[Callable[[World], None]]:
        for number, worker in enumerate(self.workers):
            if not worker.dead and worker.sequences and self.can_start(worker):
                yield partial(World.advance, number=number)
                if worker.can_die:
                    yield partial(World.kill, number=number)
        for index in range(len(self.coordinator.late)):
            yield partial(World.deliver, index=index)

    def advance(self, number: int) -> None:
        self.workers[number].advance()

    def kill(self, number: int) -> None:
        self.workers[number].dead = True

    def can_start(self, worker: Worker) -> bool:
        """Whether the previous sequence has been published: the batch loop publishes in order."""
        previous = worker.sequences[0] - 1
        return previous < 1 or any(previous in other.done for other in self.workers)

    def copy(self) -> World:
        coordinator = replace(self.coordinator)
        return World(coordinator, [worker.copy_with(coordinator) for worker in self.workers])

    def deliver(self, index: int) -> None:
        late = list(self.coordinator.late)
        epoch = late.pop(index)
        self.coordinator.late = tuple(late)
        self.coordinator.end(epoch)

    def check(self) -> None:
        log = self.coordinator.log
        assert list(log) == sorted(set(log)), f"the log is {log}"
        published = {sequence for worker in self.workers for sequence in worker.done}
        assert published <= set(log), f"{published} are reported as published, the log has {log}"

    def state(self) -> tuple[object, ...]:
        """Return the state; the order of workers does not matter."""
        return self.coordinator.state(), tuple(sorted((worker.state() for worker in self.workers), key=hash))


def explore(world: World) -> int:
    """Visit and check every reachable state; return the number of states."""
    seen = {world.state()}
    unexplored = [world]
    while unexplored:
        current = unexplored.pop()
        current.check()
        for move in current.moves():
            successor = current.copy()
            move(successor)
            if successor.state() not in seen:
                seen.add(successor.state())
                unexplored.append(successor)
    return len(seen)


def make_world(*workers: tuple[list[int], list[str]], discards: bool = True, can_die: bool = True) -> World:
    coordinator = Coordinator()
    return World(
        coordinator,
        [
            Worker(ModelProducer(coordinator, list(outcomes), discards), list(sequences), can_die)
            for sequences, outcomes in workers
        ],
    )


def test_three_attempts_at_a_sequence_publish_it_once_in_every_order() -> None:
    states = explore(make_world(([1], []), ([1], []), ([1], [])))
    print(f"{states} states")
    assert states > 1_000


@pytest.mark.parametrize("outcome", ["unacknowledged", "late"])
def test_a_lost_or_late_acknowledgement_changes_nothing(outcome: str) -> None:
    states = explore(make_world(([1], [outcome]), ([1], [outcome]), can_die=True))
    print(f"{states} states")
    assert states > 500


@pytest.mark.parametrize("outcomes", [["pending"], ["ok", "pending"], ["pending", "unacknowledged"]])
def test_a_pending_marker_neither_duplicates_nor_loses_records(outcomes: list[str]) -> None:
    states = explore(make_world(([1, 2], outcomes), ([1, 2], ["pending"]), can_die=False))
    print(f"{states} states")
    assert states > 200


def test_the_producer_with_the_acknowledgement_continues_past_a_pending_marker() -> None:
    world = make_world(([1, 2, 3], ["pending"]), can_die=False)
    while moves := list(world.moves()):
        moves[0](world)
    assert world.coordinator.log == (1, 2, 3)
    assert world.coordinator.marker is not None
    assert world.coordinator.marker.sequence == 3


@pytest.mark.parametrize("outcomes", [[], ["unacknowledged"], ["late"]])
def test_reused_producers_of_two_workers_publish_each_sequence_once(outcomes: list[str]) -> None:
    states = explore(make_world(([1, 2], outcomes), ([1, 2], []), can_die=False))
    print(f"{states} states")
    assert states > 200


def test_the_model_detects_a_producer_that_assumes_success_without_acknowledgement() -> None:
    """A client that continues with the same epoch loses a sequence, and the model detects it."""
    with pytest.raises(AssertionError, match="are reported as published"):
        explore(make_world(([1, 2], ["late"]), discards=False, can_die=False))


def test_the_model_detects_a_marker_that_is_read_before_init(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_read(self: ExactlyOnceProtocol) -> str:
        assert isinstance(self.producer, ModelProducer)
        self.producer.open()
        self.producer.early = self.producer.read(self.outputs)
        return "init"

    def only_init(self: ExactlyOnceProtocol) -> str:
        assert isinstance(self.producer, ModelProducer)
        self.producer.init()
        early = self.producer.early
        return "end" if early is not None and early.sequence >= self.sequence else "begin"

    monkeypatch.setattr(ExactlyOnceProtocol, "_open", only_read)
    monkeypatch.setattr(ExactlyOnceProtocol, "_init", only_init)
    with pytest.raises(AssertionError, match="the log is"):
        explore(make_world(([1], []), ([1], []), can_die=False))


def test_a_marker_of_another_lineage_raises_an_error() -> None:
    coordinator = Coordinator(marker=Marker(lineage="second", sequence=9, rows=1))
    worker = Worker(ModelProducer(coordinator, []), [1])
    worker.advance()
    worker.advance()
    with pytest.raises(StateError, match="a different state"):
        worker.advance()
    assert coordinator.log == ()


def test_long_random_histories() -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        outcomes = [chance.choices(["ok", "unacknowledged", "late"], k=6) for _ in range(3)]
        world = make_world(*((list(range(1, 6)), outcomes[number]) for number in range(3)), can_die=False)
        while moves := list(world.moves()):
            chance.choice(moves)(world)
            world.check()
        assert world.coordinator.log == (1, 2, 3, 4, 5)
