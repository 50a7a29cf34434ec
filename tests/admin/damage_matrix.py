"""Kinds of damage to a data directory, and what an app makes of them, judged by everything that can be read.

Each case runs in a forked process: a copy of a directory is damaged, read, given more records, run to the end, and read
again. What is read must be the same as without the damage, or an error of Millstream must say what is damaged.

Run it with ``python -m tests.admin.damage_matrix DIRECTORY few|all|swaps SEED [FIRST:LAST]``; the last argument
selects cases by their number, so that a long matrix can be run in pieces.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from tests.admin.damage_clients import CLIENT_PARTS, client_content, run_clients
from tests.cli.running import run_to_end

from millstream import App, Config, tumbling
from millstream.admin.doctor import examine
from millstream.admin.inputs import bind_inputs, check_cluster
from millstream.admin.savepoints import create_savepoint, restore_savepoint
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.errors import MillstreamError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.tables.opening import open_tables

Damage: TypeAlias = Callable[[Path, Path, random.Random], None]
"""Changes a file; it is given an older version of the file, and what it chooses with."""
PAGE = 4096
APPS = ("shop", "copied")
COPIED = shutil.ignore_patterns("lock.mdb", "waiters")  # of processes that have ended
PARTS = {
    "log/meta": "log/meta",
    "source topic": "log/topics/words",
    "output topic": "log/topics/counts",
    "topic of a global table": "log/topics/names",
    "journal": "apps/shop/journal",
    "state": "apps/shop/state/words/0",
    "windowed state": "apps/shop/state/hourly-repartition/0",
    "copy of a global table": "apps/shop/state/by_name/0",
    "savepoint journal": "savepoints/shop/monday/journal",
    "savepoint state": "savepoints/shop/monday/state/words/0",
    **CLIENT_PARTS,
    "checkpoint": "checkpoint",
}


def apps(directory: Path) -> list[App]:
    """Return an app with three kinds of state, and one that replicates its state."""
    shop = App("shop", data_dir=directory)
    names = shop.global_table("names", value=str, name="by_name")
    words = shop.stream("words", value=str)
    words.group_by_key().count(name="seen").to_stream().to("counts")
    words.group_by(lambda word: word[:6]).windowed_by(tumbling("1 min")).count(name="hourly")
    words.join(names, lambda word, name: f"{word} {name}", key=lambda word: word).to("named")
    copied = App("copied", data_dir=directory, config=Config(checkpoint=str(directory / "checkpoint")))
    copied.stream("words", value=str).group_by_key().count(name="total").to_stream().to("totals")
    return [shop, copied]


def append_words(directory: Path, first: int, count: int) -> None:
    """Append words, with event times that follow from their number."""
    words = [b"word-%d" % (number % 400) for number in range(first, first + count)]
    with EmbeddedLog(directory) as log:
        for partition in range(2):
            mine = words[partition::2]
            times = [1000 * number for number in range(first + partition, first + count, 2)]
            log.append([Output("words", partition, block_of(mine, mine, times))])


def run_apps(directory: Path) -> None:
    """Run the apps to the end, with the checks of a start."""
    for app in apps(directory):
        with EmbeddedLog(directory) as log, closing(Journal(journal_dir(directory, app.id))) as journal:
            check_cluster(app.id, journal, log)
            bind_inputs(app.id, journal, log, ["words", "names"] if app.id == "shop" else ["words"])
        run_to_end(app)
    with EmbeddedLog(directory) as log:
        log.commit("readers", {TopicPartition("counts", 0): log.offsets("counts")[0].end})


def build(directory: Path) -> Path:
    """Create the whole directory and, beside it, ``old``: the same directory before its last batches."""
    whole = directory / "whole"
    with EmbeddedLog(whole) as log:
        for topic in ("words", "counts", "named", "totals"):
            log.create_topic(topic, TopicConfig(partitions=2))
        log.create_topic("names", TopicConfig(partitions=1))
        names = [b"word-%d" % number for number in range(300)]
        log.append([Output("names", 0, block_of(names, names, [0] * len(names)))])
    append_words(whole, 0, 1500)
    run_apps(whole)
    run_clients(whole, 300)
    close_environments(whole)
    shutil.copytree(whole, directory / "old", ignore=COPIED)
    append_words(whole, 1500, 1500)
    run_apps(whole)
    run_clients(whole, 600)
    create_savepoint(whole, "shop", "monday", whole / "savepoints")
    close_environments(whole)
    shutil.copytree(whole / "savepoints", directory / "old" / "savepoints")
    return whole


def content(directory: Path) -> Any:
    """Return all records, rows and offsets of groups that users can read."""
    with EmbeddedLog(directory) as log:
        records = {
            topic: [
                [block for chunk in log.read(topic, partition, bounds.begin, bounds.end) for block in _rows(chunk)]
                for partition, bounds in enumerate(log.offsets(topic))
            ]
            for topic in log.topic_names()
        }
        groups = {group: sorted(log.committed(group).items()) for group in log.group_names()}
    tables = {
        f"{app}.{name}": sorted(map(str, table.scan()))
        for app in APPS
        for name, table in open_tables(directory, app).items()
    }
    return records, groups, tables, client_content(directory)


def _rows(chunk: Any) -> list[Any]:
    return [column.to_pylist() for column in chunk.block.columns[:3]]


# ---- kinds of damage ----


def _content_pages(data: Path) -> range:
    return range(2, data.stat().st_size // PAGE)


def truncate(data: Path, _old: Path, _random: random.Random) -> None:
    os.truncate(data, data.stat().st_size // 2)


def truncate_last_page(data: Path, _old: Path, _random: random.Random) -> None:
    os.truncate(data, data.stat().st_size - PAGE)


def empty(data: Path, _old: Path, _random: random.Random) -> None:
    os.truncate(data, 0)
    os.utime(data, (0, 0))  # long ago: a new file that is empty is waited for


def zero_header(data: Path, _old: Path, _random: random.Random) -> None:
    _overwrite(data, 0, bytes(2 * PAGE))


def zero_page(data: Path, _old: Path, random: random.Random) -> None:
    _overwrite(data, random.choice(_content_pages(data)) * PAGE, bytes(PAGE))


def zero_all_pages(data: Path, _old: Path, _random: random.Random) -> None:
    _overwrite(data, 2 * PAGE, bytes(data.stat().st_size - 2 * PAGE))


def flip_bits(data: Path, _old: Path, random: random.Random) -> None:
    for _ in range(16):
        _flip(data, random.randrange(data.stat().st_size))


def flip_bit_of_a_value(data: Path, _old: Path, random: random.Random) -> None:
    """Flip a bit in data, rather than in free space."""
    stored = data.read_bytes()
    used = [position for position in range(2 * PAGE, len(stored)) if stored[position]]
    _flip(data, random.choice(used))


def flip_header(data: Path, _old: Path, random: random.Random) -> None:
    _flip(data, random.choice((0, PAGE)) + random.randrange(16, 152))


def delete(data: Path, _old: Path, _random: random.Random) -> None:
    shutil.rmtree(data.parent)


def put_back_old(data: Path, old: Path, _random: random.Random) -> None:
    shutil.copyfile(old, data)


def swap(data: Path, _old: Path, _random: random.Random) -> None:
    """Replace the file with that of its neighbour, another task or another topic."""
    neighbours = [path for path in sorted(data.parent.parent.glob("*/data.mdb")) if path != data]
    others = (path for level in (2, 3) for path in sorted(data.parents[level].rglob("data.mdb")) if path != data)
    shutil.copyfile(neighbours[0] if neighbours else next(others), data)


def replace_by(other: str) -> Damage:
    """Return the damage that replaces a file with a copy of another one of the directory."""

    def replace(data: Path, _old: Path, _random: random.Random) -> None:
        shutil.copyfile(_root(data) / other / "data.mdb", data)

    return replace


def exchange_with(other: str) -> Damage:
    """Return the damage that puts two files of the directory in each other's position."""

    def exchange(data: Path, _old: Path, _random: random.Random) -> None:
        theirs, aside = _root(data) / other / "data.mdb", data.with_name("aside")
        data.rename(aside)
        theirs.rename(data)
        aside.rename(theirs)

    return exchange


def _root(data: Path) -> Path:
    return next(parent for parent in data.parents if (parent / "log" / "meta").exists())


KINDS: dict[str, Damage] = {
    kind.__name__: kind
    for kind in (
        truncate, truncate_last_page, empty, zero_header, zero_page, zero_all_pages, flip_bits, flip_bit_of_a_value,
        flip_header, delete, put_back_old, swap,
    )
}  # fmt: skip
SWAPS = {"replaced by ": replace_by, "exchanged with ": exchange_with}
"""Kinds of damage that name another file."""
FILE_KINDS = ("truncate", "empty", "flip_bits", "delete", "put_back_old")
"""What can happen to a file of a checkpoint, which is not an environment."""


def _overwrite(data: Path, position: int, content: bytes) -> None:
    with data.open("r+b") as file:
        file.seek(position)
        file.write(content)


def _flip(data: Path, position: int) -> None:
    with data.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << position % 8]))


# ---- judging ----


class Case(NamedTuple):
    """One kind of damage to one part of a directory."""

    part: str
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.part}, {self.kind}, seed {self.seed}"


Choose: TypeAlias = Callable[[Path, int], list[Case]]
"""Returns the cases for a whole directory and a seed."""


class Verdict(NamedTuple):
    """What became of a case: ``same``, ``error``, ``silent``, ``raw`` or ``crash``, and what doctor has found."""

    outcome: str
    detail: str
    problems: list[str]

    @property
    def is_good(self) -> bool:
        """Whether damage made no difference, or was reported as such by the app and by ``millstream doctor``."""
        return self.outcome == "same" or (self.outcome == "error" and bool(self.problems))


def all_cases(whole: Path, seed: int) -> list[Case]:
    """Return every kind of damage to every part, and the journal of the app in the position of every other file."""
    damages = [Case(part, kind, seed) for part in PARTS for kind in (FILE_KINDS if part == "checkpoint" else KINDS)]
    return [*damages, *(case for case in all_swaps(whole, seed) if case.kind == f"replaced by {PARTS['journal']}")]


def all_swaps(whole: Path, seed: int) -> list[Case]:
    """Return every file of the directory in the position of every other one, and every pair exchanged."""
    files = sorted(str(data.parent.relative_to(whole)) for data in whole.rglob("data.mdb"))
    assert set(PARTS.values()) - {"checkpoint"} <= set(files)
    replaced = [Case(file, f"replaced by {other}", seed) for file in files for other in files if file != other]
    return [
        *replaced,
        *(Case(file, f"exchanged with {other}", seed) for file in files for other in files if file < other),
    ]


def damage(whole: Path, directory: Path, case: Case) -> None:
    """Copy a whole directory and damage the copy."""
    shutil.copytree(whole, directory, ignore=COPIED)
    part = directory / PARTS.get(case.part, case.part)
    if case.part == "checkpoint":
        files = sorted(path for path in part.rglob("*") if path.is_file())
        data = random.Random(case.seed).choice(files)
        if case.kind == "delete":
            data.unlink()
        elif case.kind == "put_back_old":
            shutil.copyfile(files[0] if data != files[0] else files[1], data)
        else:
            KINDS[case.kind](data, data, random.Random(case.seed))
        return
    old = whole.parent / "old" / part.relative_to(directory) / "data.mdb"
    _damage(case.kind)(part / "data.mdb", old, random.Random(case.seed))


def _damage(kind: str) -> Damage:
    swap = next((swap for swap in SWAPS if kind.startswith(swap)), None)
    return KINDS[kind] if swap is None else SWAPS[swap](kind.removeprefix(swap))


def use(directory: Path, part: str = "", kind: str = "") -> Iterator[Any]:
    """Yield what can be read before and after more records; a copy of state is used first."""
    if part.startswith("savepoint") or kind.startswith("exchanged with savepoint"):
        restore_savepoint(directory, "shop", "monday", directory / "savepoints")
    if part == "checkpoint":  # as on another host, which has no state
        shutil.rmtree(directory / "apps" / "copied" / "state")
    yield None if part == "checkpoint" else content(directory)
    append_words(directory, 3000, 500)
    run_apps(directory)
    run_clients(directory, 700)
    yield content(directory)


def judge(whole: Path, directory: Path, case: Case, expected: Any) -> Verdict:
    """Damage a copy, use it in another process, and compare."""
    damage(whole, directory, case)
    problems = in_a_process(lambda: _problems(directory))
    if isinstance(problems, str):
        return Verdict("crash", f"doctor: {problems}", [])
    result = in_a_process(lambda: _outcome(directory, case, expected))
    if isinstance(result, str):
        return Verdict("raw" if result.startswith("raw") else "crash", result, problems)
    outcome, detail = result
    return Verdict(outcome, detail, problems)


def _problems(directory: Path) -> list[str]:
    findings = examine(directory, str(directory / "checkpoint"))
    return [f"{finding.path}: {finding.problem}" for finding in findings if finding.problem]


def _outcome(directory: Path, case: Case, expected: list[Any]) -> tuple[str, str]:
    try:
        for actual, wanted in zip(use(directory, case.part, case.kind), expected, strict=True):
            read = msgspec.json.decode(msgspec.json.encode(actual))
            if read not in (None, wanted):
                return "silent", _difference(read, wanted)
    except MillstreamError as error:
        return "error", f"{type(error).__name__}: {error}"
    return "same", ""


def _difference(actual: Any, expected: Any) -> str:
    """Return where two results differ first."""
    for kind, mine, theirs in zip(("records", "groups", "tables", "clients"), actual, expected, strict=True):
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if names:
            return f"{kind} of {', '.join(names)}"
    return "nothing"


def in_a_process(work: Callable[[], Any]) -> Any:
    """Return the result of a function that runs in a fork, or a text that says how the fork died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                try:
                    pipe.write(msgspec.json.encode(work()))
                except BaseException as error:
                    pipe.write(msgspec.json.encode(f"raw {type(error).__name__}: {error}"))
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return msgspec.json.decode(data) if code == 0 else f"exit code {code}"


def expectation(whole: Path, directory: Path) -> Any:
    """Return what a directory without damage gives."""
    shutil.copytree(whole, directory, ignore=COPIED)
    return in_a_process(lambda: list(use(directory)))


def run_matrix(directory: Path, choose: Choose, seed: int) -> dict[Case, Verdict]:
    """Judge cases one after the other; this process must not have opened any environment."""
    whole = directory / "whole"
    built = in_a_process(lambda: str(build(directory)))
    assert built == str(whole), built
    expected = expectation(whole, directory / "expected")
    assert not isinstance(expected, str), expected
    verdicts = {}
    for number, case in enumerate(choose(whole, seed)):
        target = directory / f"case-{number}"
        verdict = verdicts[case] = judge(whole, target, case, expected)
        print("good" if verdict.is_good else "BAD ", case, verdict, sep=" | ", flush=True)
        shutil.rmtree(target, ignore_errors=True)
    return verdicts


def few_cases(_whole: Path, seed: int) -> list[Case]:
    """Return one kind of damage for every part, and every kind of damage at least once."""
    kinds = list(KINDS)
    chosen = [Case(part, kinds[number % len(kinds)], seed) for number, part in enumerate(PARTS) if part != "checkpoint"]
    rest = kinds[len(chosen) :]
    swap = Case("copy of a global table", f"replaced by {PARTS['journal']}", seed)
    return [*chosen, *(Case("journal", kind, seed) for kind in rest), swap, Case("checkpoint", "flip_bits", seed)]


CHOICES: dict[str, Choose] = {"all": all_cases, "swaps": all_swaps, "few": few_cases}

if __name__ == "__main__":
    first, _, last = (sys.argv[4] if len(sys.argv) > 4 else ":").partition(":")
    piece = slice(int(first or 0), int(last) if last else None)
    choice = CHOICES[sys.argv[2]]
    verdicts = run_matrix(Path(sys.argv[1]), lambda whole, seed: choice(whole, seed)[piece], int(sys.argv[3])).values()
    print(f"{len(verdicts)} kinds of damage: {dict(Counter(verdict.outcome for verdict in verdicts))}")
    sys.exit(not all(verdict.is_good for verdict in verdicts))
