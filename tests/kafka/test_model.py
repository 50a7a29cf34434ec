"""The steps of a publication in every order that several attempts, crashes and late answers can bring about.

The steps are the real ones (millstream.kafka.exactly_once_protocol); the cluster is a model of what a Kafka transaction
coordinator promises to clients of the first transaction protocol: epochs, fencing, and that the end of a transaction
is taken for whichever transaction of its epoch is open when it arrives.
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
from millstream.kafka.exactly_once_protocol import AttemptLostError, Publication
from millstream.kafka.marker import Identity, Marker, is_undecided

IDENTITY = Identity("app.stage.0", "first")


@dataclass
class Coordinator:
    """One transactional id: its epoch, its open transaction, what is committed, and what is still on its way."""

    epoch: int = 0
    open: tuple[int, ...] = ()
    marked: Marker | None = None
    log: tuple[int, ...] = ()
    marker: Marker | None = None
    undecided: Marker | None = None
    """A marker whose end was lost by a broker that died; it is decided by the end of the next transaction."""
    late: tuple[int, ...] = ()
    """Epochs of requests to end a transaction that the network still holds."""

    def check(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise AttemptLostError("fenced")

    def end(self, epoch: int) -> None:
        """Commit the open transaction if the epoch is the current one, whichever transaction that is."""
        if epoch == self.epoch and (self.open or self.marked):
            self.log += self.open
            self.marker = self.marked or self.undecided or self.marker
            self.open, self.marked, self.undecided = (), None, None

    def state(self) -> tuple[object, ...]:
        """Which epoch it is does not matter, only what is of the current one: an old one never comes back."""
        return self.open, self.marked, self.log, self.marker, self.undecided, self.late.count(self.epoch)


@dataclass
class ModelTransactions:
    """A producer at the model; it forgets a producer whose last commit it is not sure about, as the real one does."""

    coordinator: Coordinator
    answers: list[str]
    """What happens to the next commits.

    "ok", "unheard" (done, but the answer is lost), "late" (comes later), or "undecided" (done and answered by a broker
    that had died, so that the producer is not kept and its marker is undecided).
    """
    forgets: bool = True
    epoch: int = -1
    kept: Marker | None = None
    known: Marker | None = None
    early: Marker | None = None
    """For a protocol that reads the marker too early."""
    _marked: Marker | None = None

    def open(self) -> None:
        self.epoch, self.kept = -1, None

    def init(self) -> None:
        self.coordinator.open, self.coordinator.marked = (), None  # that of a predecessor is aborted
        self.coordinator.epoch += 1
        self.epoch = self.coordinator.epoch

    def read(self, outputs: Sequence[Output]) -> Marker | None:
        if self.coordinator.undecided is None:
            return self.coordinator.marker
        if is_undecided(self.known, self.coordinator.marker):
            return self.known
        raise AttemptLostError("undecided")

    def begin(self) -> None:
        self.kept = None

    def produce(self, outputs: Sequence[Output]) -> None:
        self.coordinator.check(self.epoch)
        self.coordinator.open += tuple(output.partition for output in outputs)

    def mark(self, sequence: int, outputs: Sequence[Output]) -> None:
        self.coordinator.check(self.epoch)
        self._marked = Marker(lineage=IDENTITY.lineage, sequence=sequence, rows=len(outputs))
        self.coordinator.marked = self._marked

    def commit(self) -> None:
        answer = self.answers.pop(0) if self.answers else "ok"
        if answer == "late":
            self.coordinator.late += (self.epoch,)
            if self.forgets:
                raise AttemptLostError("no answer")
            return  # a client that takes silence for success
        self.coordinator.check(self.epoch)
        before = self.coordinator.undecided or self.coordinator.marker
        self.coordinator.end(self.epoch)
        if answer == "unheard":
            raise AttemptLostError("no answer")
        self.known = self._marked
        if answer == "undecided":
            self.coordinator.marker, self.coordinator.undecided = before, self._marked
        else:
            self.kept = self._marked


@dataclass
class Worker:
    """Publishes sequences in order, each until it is sure; may die before any step."""

    transactions: ModelTransactions
    sequences: list[int]
    can_die: bool = False
    publication: Publication | None = None
    done: list[int] = field(default_factory=list)
    dead: bool = False

    def advance(self) -> None:
        if self.publication is None:
            sequence = self.sequences[0]
            records = [Output("out", sequence, None)]  # the partition stands for the record
            self.publication = Publication(self.transactions, IDENTITY, sequence, records)
        if not self.publication.is_done:
            try:
                self.publication.advance()
            except AttemptLostError:
                self.transactions.open()
        if self.publication.is_done:
            self.done.append(self.sequences.pop(0))
            self.publication = None

    def state(self) -> tuple[object, ...]:
        step = None if self.publication is None else self.publication.step
        own = self.transactions
        is_current = own.epoch == own.coordinator.epoch
        markers = own.kept, own.early, own.known, own._marked
        return step, tuple(self.sequences), self.dead, is_current, markers, tuple(own.answers)

    def copied(self, coordinator: Coordinator) -> Worker:
        own = replace(self.transactions, coordinator=coordinator, answers=list(self.transactions.answers))
        publication = copy.copy(self.publication)
        if publication is not None:
            publication.transactions = own
        return replace(
            self, transactions=own, sequences=list(self.sequences), publication=publication, done=list(self.done)
        )


@dataclass
class World:
    """Everything that can happen next, and what must hold whenever nothing can."""

    coordinator: Coordinator
    workers: list[Worker]

    def moves(self) -> Iterator[Callable[[World], None]]:
        for number, worker in enumerate(self.workers):
            if not worker.dead and worker.sequences and self.may_begin(worker):
                yield partial(World.advance, number=number)
                if worker.can_die:
                    yield partial(World.kill, number=number)
        for place in range(len(self.coordinator.late)):
            yield partial(World.deliver, place=place)

    def advance(self, number: int) -> None:
        self.workers[number].advance()

    def kill(self, number: int) -> None:
        self.workers[number].dead = True

    def may_begin(self, worker: Worker) -> bool:
        """The loop asks for a sequence only when somebody is sure of the one before."""
        before = worker.sequences[0] - 1
        return before < 1 or any(before in other.done for other in self.workers)

    def copied(self) -> World:
        coordinator = replace(self.coordinator)
        return World(coordinator, [worker.copied(coordinator) for worker in self.workers])

    def deliver(self, place: int) -> None:
        late = list(self.coordinator.late)
        epoch = late.pop(place)
        self.coordinator.late = tuple(late)
        self.coordinator.end(epoch)

    def check(self) -> None:
        log = self.coordinator.log
        assert list(log) == sorted(set(log)), f"the log is {log}"
        published = {sequence for worker in self.workers for sequence in worker.done}
        assert published <= set(log), f"{published} are said to be published, the log has {log}"

    def state(self) -> tuple[object, ...]:
        """Workers that are in the same state are alike, whatever their place."""
        return self.coordinator.state(), tuple(sorted((worker.state() for worker in self.workers), key=hash))


def explore(world: World) -> int:
    """Visit every state that can be reached, checking each; return how many there are."""
    seen = {world.state()}
    waiting = [world]
    while waiting:
        here = waiting.pop()
        here.check()
        for move in here.moves():
            there = here.copied()
            move(there)
            if there.state() not in seen:
                seen.add(there.state())
                waiting.append(there)
    return len(seen)


def world_of(*workers: tuple[list[int], list[str]], forgets: bool = True, can_die: bool = True) -> World:
    coordinator = Coordinator()
    return World(
        coordinator,
        [
            Worker(ModelTransactions(coordinator, list(answers), forgets), list(sequences), can_die)
            for sequences, answers in workers
        ],
    )


def test_three_attempts_at_one_sequence_publish_it_once_in_every_order() -> None:
    states = explore(world_of(([1], []), ([1], []), ([1], [])))
    print(f"{states} states")
    assert states > 1_000


@pytest.mark.parametrize("answer", ["unheard", "late"])
def test_an_answer_that_is_lost_or_late_changes_nothing(answer: str) -> None:
    states = explore(world_of(([1], [answer]), ([1], [answer]), can_die=True))
    print(f"{states} states")
    assert states > 500


@pytest.mark.parametrize("answers", [["undecided"], ["ok", "undecided"], ["undecided", "unheard"]])
def test_a_marker_that_stays_undecided_doubles_and_loses_nothing(answers: list[str]) -> None:
    states = explore(world_of(([1, 2], answers), ([1, 2], ["undecided"]), can_die=False))
    print(f"{states} states")
    assert states > 200


def test_who_has_heard_of_its_commit_goes_on_past_a_marker_that_is_undecided() -> None:
    world = world_of(([1, 2, 3], ["undecided"]), can_die=False)
    while moves := list(world.moves()):
        moves[0](world)
    assert world.coordinator.log == (1, 2, 3)
    assert world.coordinator.marker is not None
    assert world.coordinator.marker.sequence == 3


@pytest.mark.parametrize("answers", [[], ["unheard"], ["late"]])
def test_kept_producers_of_two_workers_publish_each_sequence_once(answers: list[str]) -> None:
    states = explore(world_of(([1, 2], answers), ([1, 2], []), can_die=False))
    print(f"{states} states")
    assert states > 200


def test_the_model_finds_what_happens_if_silence_is_taken_for_success() -> None:
    """The rule matters: a client that goes on with the same epoch loses a sequence, and the model shows it."""
    with pytest.raises(AssertionError, match="are said to be published"):
        explore(world_of(([1, 2], ["late"]), forgets=False, can_die=False))


def test_the_model_finds_what_happens_if_the_marker_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_read(self: Publication) -> str:
        assert isinstance(self.transactions, ModelTransactions)
        self.transactions.open()
        self.transactions.early = self.transactions.read(self.outputs)
        return "init"

    def only_init(self: Publication) -> str:
        assert isinstance(self.transactions, ModelTransactions)
        self.transactions.init()
        early = self.transactions.early
        return "end" if early is not None and early.sequence >= self.sequence else "begin"

    monkeypatch.setattr(Publication, "_open", only_read)
    monkeypatch.setattr(Publication, "_init", only_init)
    with pytest.raises(AssertionError, match="the log is"):
        explore(world_of(([1], []), ([1], []), can_die=False))


def test_a_marker_of_another_lineage_stops() -> None:
    coordinator = Coordinator(marker=Marker(lineage="second", sequence=9, rows=1))
    worker = Worker(ModelTransactions(coordinator, []), [1])
    worker.advance()
    worker.advance()
    with pytest.raises(StateError, match="another state"):
        worker.advance()
    assert coordinator.log == ()


def test_long_random_histories() -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        answers = [chance.choices(["ok", "unheard", "late"], k=6) for _ in range(3)]
        world = world_of(*((list(range(1, 6)), answers[number]) for number in range(3)), can_die=False)
        while moves := list(world.moves()):
            chance.choice(moves)(world)
            world.check()
        assert world.coordinator.log == (1, 2, 3, 4, 5)
