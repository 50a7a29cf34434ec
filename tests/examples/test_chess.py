from examples.chess import START, app, data, drawn, moved

from millstream.testing import TestDriver


def test_the_stream_replays_the_game_and_the_table_shows_the_board() -> None:
    with TestDriver(app) as driver:
        driver.topic("moves").pipe("e2e4", "e7e5", key="game")
        assert driver.topic("replay").read_key_values() == [("game", "1. e2e4"), ("game", "2. e7e5")]
        board = driver.table("boards")["game"]
        assert (board["e4"], board["e5"], "e2" in board) == ("P", "p", False)
        assert len(board) == 32


def test_castling_moves_the_rook() -> None:
    board = moved({"e1": "K", "h1": "R"}, "e1g1")
    assert board == {"g1": "K", "f1": "R"}


def test_games_end_in_the_known_final_position() -> None:
    with TestDriver(app) as driver:
        for record in data():
            driver.topic("moves").pipe(record.value, key=record.key, timestamp=record.timestamp)
        opera = driver.table("boards")["opera"]
        assert (opera["d8"], opera["g5"], opera["e8"]) == ("R", "B", "k")
        assert drawn(START).splitlines()[0] == "  8 r n b q k b n r"
