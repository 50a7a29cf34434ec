from examples.word_count import app

from millstream.testing import TestDriver


def test_words_are_counted_regardless_of_case() -> None:
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("The mill and the stream", timestamp=0)

        assert driver.topic("word-counts").read_key_values() == [
            ("the", 1), ("mill", 1), ("and", 1), ("the", 2), ("stream", 1),
        ]  # fmt: skip
        assert driver.table("words")["the"] == 2
