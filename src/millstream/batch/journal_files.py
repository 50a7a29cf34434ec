"""The journal of an app in its checkpoint: numbered files, each of which can be created once.

A commit creates the file with the next number. If that file exists, another process was faster: this one reads it, and
stops if it is of another run. Every 50th file has all rows of the journal, the others what a commit has changed, so a
reader starts at the last one with all rows, and older files are deleted. A run that was cut off for that long could
create a deleted file again; it notices that there are files with larger numbers, and readers ignore the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

import msgspec
import pyarrow as pa
from pyarrow import fs

from millstream.batch.shared_journal import AHEAD, JOURNAL, Owner, SharedJournal, attempts
from millstream.broker import WriterLostError
from millstream.errors import DamagedError, StateError, StorageError
from millstream.foundation.databases import clear_databases
from millstream.foundation.file_systems import can_create_once, create_once, open_file_system
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import Transaction, WriteTransaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.state.changelog_rows import POSITIONS
from millstream.state.recording import Changes, Rows, rows_of

T = TypeVar("T")
_WHOLE_EVERY = 50
_POSITION = b"file"
_SUFFIX = ".journal"
CHECKPOINT_ROW = JOURNAL, b"checkpoint"
"""The database and key of the row that names the checkpoint in which the journal is."""


class JournalFile(msgspec.Struct, frozen=True, array_like=True):
    """The content of a file."""

    id: str
    """Random; tells two files with the same number apart."""
    owner: Owner
    """The run that has created the file."""
    rows: Rows
    """All rows if the number is that of a file with all rows, else what the commit has changed."""


class FilePosition(msgspec.Struct, frozen=True, array_like=True):
    """The last file that a copy contains."""

    number: int = 0
    id: str = ""


def can_hold_journal(uri: str) -> bool:
    """Whether a checkpoint is on a file system on which a file can be created once."""
    return can_create_once(open_file_system("checkpoint", uri)[0])


class JournalFiles(SharedJournal):
    """The files of a journal, as one process of a run uses them."""

    def __init__(self, uri: str, app: str, owner: Owner) -> None:
        """Use the journal of an app in the checkpoint at ``uri``."""
        super().__init__(app, owner)
        self.uri = uri
        self._file_system, root = open_file_system("checkpoint", uri)
        self._directory = f"{root.rstrip('/')}/{app}/journal"
        self._is_joined = False

    @property
    def _is_open(self) -> bool:
        return self._is_joined

    def _open(self) -> None:
        self._is_joined = True

    def leave(self) -> None:
        """Let another process of the run write."""
        self._is_joined = False

    def _is_empty(self) -> bool:
        return not self._numbers()

    def _stored_rows(self) -> Rows:
        return _while_files_are_deleted(
            lambda: [row for number in _needed(self._numbers()) for row in self._read(number).rows]
        )

    def look_for_takeover(self, environment: Environment) -> None:
        """Raise if another run has taken over; reads only the last file, and nothing of the copy."""
        del environment
        last = _while_files_are_deleted(lambda: [self._read(number) for number in self._numbers()[-1:]])
        self._check_run(last[0].owner if last else None)

    def is_in_use(self) -> bool:
        """Whether the app has its journal here: it has stored that, and has not left since."""
        rows = {(database, key): value for database, key, value in self._stored_rows()}
        return rows.get(CHECKPOINT_ROW) is not None

    # Reading

    def _start_copy(self, environment: Environment) -> None:
        # A copy that is not ahead replaces nothing: if another run has created the first file meanwhile, it counts.
        last = self._numbers()[-1:] if self._is_ahead(environment) else []
        position = FilePosition(last[0], self._read(last[0]).id) if last else FilePosition()
        environment.open_databases((POSITIONS,))
        environment.update(lambda txn: _put_position(environment, txn, position))

    def _catch_up(self, environment: Environment) -> None:
        environment.open_databases((POSITIONS,))
        _while_files_are_deleted(lambda: self._read_missing(environment))

    def _read_missing(self, environment: Environment) -> None:
        with environment.read() as txn:
            position = _position(environment, txn)
        numbers = self._numbers()
        last = numbers[-1] if numbers else 0
        if position.number > last:
            raise StateError(
                f"the journal of app {self._app!r} in the checkpoint ends at file {last}, but this host has read file "
                f"{position.number}",
                hint=f"put back what was deleted from {self._directory!r}, restore a savepoint, or reset the app",
            )
        if not self._can_continue(position, numbers):
            clear_databases(environment)  # it is too old, or a copy of another journal
            position = FilePosition()
        missing = [number for number in _needed(numbers) if number > position.number]
        for number in missing:
            file = self._read(number)
            _apply(environment, file.rows, FilePosition(number, file.id))

    def _can_continue(self, position: FilePosition, numbers: list[int]) -> bool:
        """Whether the files after a copy are all there, and its own last file is the one that it has read."""
        if not position.number:
            return not numbers
        return position.number in numbers and self._read(position.number).id == position.id

    def _numbers(self) -> list[int]:
        """Return the numbers of all files, in order."""
        selector = fs.FileSelector(self._directory, allow_not_found=True)
        try:
            names = [info.base_name for info in self._file_system.get_file_info(selector)]
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        return sorted(
            int(name.removesuffix(_SUFFIX))
            for name in names
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()
        )

    def _read(self, number: int) -> JournalFile:
        path = self._path(number)
        try:
            with self._file_system.open_input_stream(path, compression=None) as stream:
                data = bytes(stream.read())
        except FileNotFoundError as error:
            raise _DeletedError from error
        except (OSError, pa.ArrowException) as error:
            raise self._unreachable(error) from error
        checksum, content = data[:8], data[8:]
        if checksum != b"%08x" % crc32(content):
            raise DamagedError(
                f"{path!r} is damaged: it does not match its checksum",
                hint="restore the checkpoint from a backup, or reset the app",
                path=path,
            )
        return decode_msgpack(content, JournalFile)

    # Writing

    def _commit(self, environment: Environment, txn: Transaction, changes: Changes) -> bool:
        if not changes:
            return False
        number = _position(environment, txn).number + 1
        rows = _all_rows(environment, txn) if _is_whole(number) else rows_of(changes)
        file = JournalFile(uuid.uuid4().hex, self.owner, rows)
        content = msgspec.msgpack.encode(file)
        try:
            is_created = create_once(self._file_system, self._path(number), b"%08x" % crc32(content) + content)
        except (OSError, pa.ArrowException) as error:
            self.leave()  # it may have been created after all
            raise self._unreachable(error) from error
        if not is_created or self._numbers()[-1] != number:
            self.leave()
            raise WriterLostError("another process has written the journal")
        if _is_whole(number):
            self._delete_before(number - _WHOLE_EVERY)
        _put_position(environment, txn, FilePosition(number, file.id))
        return True

    def _delete_before(self, number: int) -> None:
        for old in self._numbers():
            if old < number:
                self._file_system.delete_file(self._path(old))

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:012d}{_SUFFIX}"

    def _unreachable(self, error: Exception) -> StorageError:
        return StorageError(
            f"the journal in the checkpoint {self.uri!r} cannot be read or written: {error}",
            hint="check checkpoint= and its permissions; the step is retried",
        )


class _DeletedError(Exception):
    """A file was deleted before it could be read: another process has written a file with all rows since."""


def _while_files_are_deleted(read: Callable[[], T]) -> T:
    """Read again as long as another process deletes what is to be read."""
    for _ in attempts():
        try:
            return read()
        except _DeletedError:
            continue
    raise AssertionError("unreachable")


def _apply(environment: Environment, rows: Rows, position: FilePosition) -> None:
    """Apply a file to a copy."""

    def change(txn: WriteTransaction) -> None:
        if _is_whole(position.number):
            txn.drop(environment.databases[JOURNAL], delete=False)
        for database, key, value in rows:
            if value is None:
                txn.delete(key, db=environment.databases[database])
            else:
                txn.put(key, value, db=environment.databases[database])
        _put_position(environment, txn, position)

    environment.update(change)


def _is_whole(number: int) -> bool:
    """Whether a file has all rows; the first one has."""
    return number % _WHOLE_EVERY == 1


def _needed(numbers: list[int]) -> list[int]:
    """Return the numbers of the last file with all rows and of those after it."""
    whole = max((number for number in numbers if _is_whole(number)), default=0)
    return [number for number in numbers if number >= whole]


def _all_rows(environment: Environment, txn: Transaction) -> Rows:
    with txn.cursor(db=environment.databases[JOURNAL]) as cursor:
        return [(JOURNAL, bytes(key), bytes(value)) for key, value in cursor if key != AHEAD]


def _position(environment: Environment, txn: Transaction) -> FilePosition:
    stored = txn.get(_POSITION, db=environment.databases[POSITIONS])
    return FilePosition() if stored is None else decode_msgpack(stored, FilePosition)


def _put_position(environment: Environment, txn: Transaction, position: FilePosition) -> None:
    txn.put(_POSITION, msgspec.msgpack.encode(position), db=environment.databases[POSITIONS])
