"""Chess: one topic of moves. As a stream it replays the game; as a table it shows the current board.

python -m examples.chess                 plays three short games in parallel
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Config

Board = dict[str, str]

_BACK_RANK = "rnbqkbnr"
START: Board = {
    **{f"{column}1": piece.upper() for column, piece in zip("abcdefgh", _BACK_RANK, strict=True)},
    **{f"{column}2": "P" for column in "abcdefgh"},
    **{f"{column}7": "p" for column in "abcdefgh"},
    **{f"{column}8": piece for column, piece in zip("abcdefgh", _BACK_RANK, strict=True)},
}

_CASTLING = {"e1g1": "h1f1", "e1c1": "a1d1", "e8g8": "h8f8", "e8c8": "a8d8"}


def moved(board: Board, move: str) -> Board:
    """Return the board after a move such as ``e2e4``; castling also moves the rook."""
    origin, target = move[:2], move[2:4]
    after = {square: piece for square, piece in board.items() if square != origin}
    after[target] = board[origin]
    rook = _CASTLING.get(move)
    return moved(after, rook) if rook is not None and board[origin] in "Kk" else after


class Turn(msgspec.Struct):
    """A move and its number in the game."""

    number: int
    move: str


app = App("chess", config=Config(caching=False))  # emit every move, not only the last one of a batch
moves = app.stream("moves", key=str, value=str)

# the stream: every move is a fact, with its number in the game
turns = moves.group_by_key().aggregate(lambda: Turn(0, ""), lambda last, move: Turn(last.number + 1, move), value=Turn)
turns.to_stream().map_values(lambda turn: f"{turn.number}. {turn.move}").to("replay", value=str)

# the table: all moves so far, applied to one board per game
moves.group_by_key().aggregate(lambda: START, moved, value=Board, name="boards")

GAMES = {
    "fools-mate": "f2f3 e7e5 g2g4 d8h4",
    "scholars-mate": "e2e4 e7e5 d1h5 b8c6 f1c4 g8f6 h5f7",
    "opera": "e2e4 e7e5 g1f3 d7d6 d2d4 c8g4 d4e5 g4f3 d1f3 d6e5 f1c4 g8f6 f3b3 d8e7 b1c3 c7c6 c1g5 b7b5 c3b5 c6b5 c4b5 "
    "b8d7 e1c1 a8d8 d1d7 d8d7 h1d1 e7e6 b5d7 f6d7 b3b8 d7b8 d1d8",
}


def data() -> Iterator[Input]:
    """Yield the moves of all games, turn by turn."""
    games = {game: moves.split() for game, moves in GAMES.items()}
    for turn in range(max(map(len, games.values()))):
        for game, all_moves in games.items():
            if turn < len(all_moves):
                yield Input("moves", game, all_moves[turn], turn * 10_000)


def drawn(board: Board) -> str:
    """Draw a board with white at the bottom."""
    rows = (" ".join(board.get(f"{column}{row}", "·") for column in "abcdefgh") for row in range(8, 0, -1))
    return "\n".join(f"  {8 - number} {row}" for number, row in enumerate(rows)) + "\n    a b c d e f g h"


def show(app: App) -> None:
    """Print each game twice: the moves from the stream, and the current board from the table."""
    with app.consumer(topics=["replay"], key=str, value=str) as consumer:
        replay = consumer.poll("1 s")
    for game in GAMES:
        print(f"\n{game}\n  {'  '.join(move.value for move in replay if move.key == game)}")
        print(drawn(app.tables["boards"][game]))


if __name__ == "__main__":
    run_example(app, data(), show)
