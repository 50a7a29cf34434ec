"""Tables of a database that is a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.connectors.checking import directory_problems
from millstream.connectors.sql_tables.table import SqlTable


class FileTable(SqlTable):
    """A table of a file, which is created when it is first opened."""

    def __init__(self, path: str | Path, table: str, **options: Any) -> None:
        super().__init__(table, **options)
        self.path = path

    def check(self) -> Sequence[str]:
        """Open the file, and say what is missing; a file that does not exist is not created."""
        return super().check() if Path(self.path).exists() else directory_problems(Path(self.path).parent)
