from collections import Counter
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.placement import ANYWHERE, Levels, Slot, assign, is_displaced, seats_of, slots_of, spread

TWO_LEVELS: Levels = [{0: "a/0", 1: "a/1", 2: "a/2", 3: "a/3"}, {4: "b/0", 5: "b/1"}]

hosts = st.dictionaries(st.sampled_from(["h1", "h2", "h3", "h4"]), st.integers(1, 8), min_size=1)
levels = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(
    lambda sizes: [{100 * level + n: f"s{level}/{n}" for n in range(size)} for level, size in enumerate(sizes)]
)


def test_tasks_of_one_host_are_spread_over_its_cores() -> None:
    assert spread(TWO_LEVELS, 3) == (
        (Slot(ANYWHERE, (0, 3)), Slot(ANYWHERE, (1,)), Slot(ANYWHERE, (2,))),
        (Slot(ANYWHERE, (4,)), Slot(ANYWHERE, (5,))),
    )


def test_each_level_is_spread_over_all_hosts() -> None:
    placed = assign(TWO_LEVELS, {"h1": 1, "h2": 1}, {})
    assert placed == {"a/0": "h1", "a/1": "h1", "a/2": "h2", "a/3": "h2", "b/0": "h1", "b/1": "h2"}
    assert slots_of(TWO_LEVELS, placed, {"h1": 1, "h2": 1}) == (
        (Slot("h1", (0, 1)), Slot("h2", (2, 3))),
        (Slot("h1", (4,)), Slot("h2", (5,))),
    )


def test_a_new_host_takes_its_share_and_the_other_tasks_stay() -> None:
    before = assign(TWO_LEVELS, {"h1": 1}, {})
    after = assign(TWO_LEVELS, {"h1": 1, "h2": 1}, before)
    assert {name for name, host in after.items() if before[name] != host} == {"a/2", "a/3", "b/1"}


def test_tasks_of_a_lost_host_move_and_the_others_stay() -> None:
    before = assign(TWO_LEVELS, {"h1": 1, "h2": 1}, {})
    after = assign(TWO_LEVELS, {"h2": 1}, before)
    assert set(after.values()) == {"h2"}


def test_rounds_of_one_state_run_on_one_host() -> None:
    rounds: Levels = [{0: "loop/0", 1: "loop/1"}, {2: "loop/0", 3: "loop/1"}]
    placed = assign(rounds, {"h1": 1, "h2": 1}, {})
    first, second = slots_of(rounds, placed, {"h1": 1, "h2": 1})
    assert [(slot.host, slot.tasks) for slot in first + second] == [
        ("h1", (0,)), ("h2", (1,)), ("h1", (2,)), ("h2", (3,)),
    ]  # fmt: skip


def test_only_a_state_on_a_known_host_that_is_not_its_own_is_displaced() -> None:
    placed = {"a/0": "h1", "a/1": "h2"}
    assert is_displaced("a/0", "h2", placed)
    assert not is_displaced("a/0", "h1", placed)
    assert not is_displaced("a/0", "called-otherwise", placed), "names that Spark does not use prove nothing"
    assert not is_displaced("/0", "h2", placed), "an idle task has used no state"


@given(levels, hosts, hosts)
def test_every_task_has_one_slot_and_hosts_are_loaded_by_their_cores(
    levels: Levels, before: dict[str, int], after: dict[str, int]
) -> None:
    placed = assign(levels, after, assign(levels, before, {}))
    assert assign(levels, after, placed) == placed, "a balanced placement stays"
    for tasks, slots in zip(levels, slots_of(levels, placed, after), strict=True):
        assert sorted(chain.from_iterable(slot.tasks for slot in slots)) == sorted(tasks)
        held, slot_count = Counter[str](), Counter[str]()
        for slot in slots:
            held[slot.host] += len(slot.tasks)
            slot_count[slot.host] += 1
        for host, cores in after.items():
            exact = len(tasks) * cores / sum(after.values())
            assert int(exact) <= held[host] <= int(exact) + 1
            assert slot_count[host] <= cores


@given(levels, hosts)
def test_every_slot_has_one_seat_on_its_host_and_seats_do_not_exceed_cores(
    levels: Levels, cores: dict[str, int]
) -> None:
    slots = slots_of(levels, assign(levels, cores, {}), cores)
    seats = seats_of(slots)
    for level, own in enumerate(slots):
        held = {seat.slots[level]: seat.host for seat in seats if seat.slots[level] is not None}
        assert held == {number: slot.host for number, slot in enumerate(own)}
        assert sum(seat.slots[level] is not None for seat in seats) == len(own), "no slot has two seats"
    for host, count in Counter(seat.host for seat in seats).items():
        assert count <= cores[host]
    assert all(any(slot is not None for slot in seat.slots) for seat in seats)
