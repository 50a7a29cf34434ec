"""The SQL shell: reads statements up to their semicolon and prints their answers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from millstream.cli.output import show_message
from millstream.cli.sql_answers import show_answer
from millstream.cli.sql_completion import last_word, suggestions
from millstream.errors import DefinitionError, MillstreamError, SqlError
from millstream.foundation.text import printable
from millstream.queries.session import Session
from millstream.sql.tokens import tokens_of

_PROMPT, _CONTINUED = "sql> ", "...> "
_ENDS = ("exit", "quit")
_HELP = """Statements end with a semicolon. For example:
  SHOW TABLES;                               what there is; also STREAMS, TOPICS, QUERIES, FUNCTIONS
  DESCRIBE zones EXTENDED;                   the columns of a stream or table
  SELECT * FROM zones WHERE zone = 'Mitte';  the rows of a table now
  SELECT * FROM rides EMIT CHANGES;          rows as they arrive, until Ctrl-C
  SET 'auto.offset.reset' = 'earliest';      the next EMIT CHANGES starts at the beginning
  RUN SCRIPT 'statements.sql';               the statements of a file
Ctrl-C ends a query, Ctrl-D or exit the shell."""

ReadLine = Callable[[str], str]
_RUN_SCRIPT = re.compile(r"\s*RUN\s+SCRIPT\s+(?:'(?P<quoted>[^']+)'|(?P<bare>[^\s';]+))\s*;?\s*", re.IGNORECASE)


def run_text(session: Session, text: str, *, as_json: bool) -> None:
    """Execute the statements of a text, or of the file that RUN SCRIPT names, and print their answers."""
    for executed in session.execute(_script(text)):
        show_answer(executed.answer, as_json=as_json)


def _script(text: str) -> str:
    """Return the content of the file if a text is ``RUN SCRIPT 'file'``, otherwise the text."""
    match = _RUN_SCRIPT.fullmatch(text)
    if match is None:
        return text
    path = Path(match["quoted"] or match["bare"])
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"the script {str(path)!r} cannot be read: {error}", hint="give a file of SQL") from error


def is_complete(text: str) -> bool:
    """Whether a text ends with a semicolon that is not part of a quote or a comment."""
    try:
        tokens = tokens_of(text)
    except SqlError as error:
        return "is not closed" not in error.message
    return len(tokens) > 1 and tokens[-2][:2] == ("symbol", ";")


def run_shell(session: Session, *, as_json: bool) -> None:
    """Read statements until the end of the input; an error or Ctrl-C ends a statement, not the shell."""
    read_line = _line_reader(session)
    show_message("SQL shell; help; shows examples, Ctrl-D ends it")
    while True:
        try:
            text = _read_statement(read_line)
        except KeyboardInterrupt:
            show_message("")
            continue
        except EOFError:
            return
        word = text.strip().rstrip(";").strip().lower()
        if word in _ENDS:
            return
        if word == "help":
            click.echo(_HELP)
            continue
        _execute(session, text, as_json=as_json)


def _execute(session: Session, text: str, *, as_json: bool) -> None:
    try:
        run_text(session, text, as_json=as_json)
    except KeyboardInterrupt:
        show_message("\nended")
    except MillstreamError as error:
        lines = str(error).split("\n") if isinstance(error, SqlError) else [str(error)]
        click.echo("\n".join(["error: " + printable(lines[0]), *map(printable, lines[1:])]), err=True)


def _read_statement(read_line: ReadLine) -> str:
    lines = [read_line(_PROMPT)]
    while (text := "\n".join(lines)).strip() and not (is_complete(text) or text.strip().lower() in (*_ENDS, "help")):
        lines.append(read_line(_CONTINUED))
    return text


def _line_reader(session: Session) -> ReadLine:
    """Return what reads a line: with history and completion if the extra ``shell`` is installed."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _plain_line
    try:
        return _rich_reader(session)
    except ImportError:
        show_message('without history and completion; install them: pip install "millstream[shell]"')
        return _plain_line


def _plain_line(prompt: str) -> str:
    return input(prompt if sys.stdin.isatty() else "")


def _rich_reader(session: Session) -> ReadLine:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory

    class SqlCompleter(Completer):
        """Suggests how the word at the cursor can end; a statement may have begun on earlier lines."""

        def get_completions(self, document: Any, _event: Any) -> Any:
            text = document.text_before_cursor
            start = -len(last_word(text))
            return (Completion(each, start_position=start) for each in suggestions(text, session.catalog))

    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(history_file())), completer=SqlCompleter(), complete_while_typing=False
    )
    return prompt.prompt


def history_file() -> Path:
    """Return the file of the history, which only its user can read; its directory is created."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    directory = Path(home) / "millstream"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / "sql_history"
    path.touch(mode=0o600)
    return path
