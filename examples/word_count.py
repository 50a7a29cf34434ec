"""Count words: lines in, one count per word out.

python -m examples.word_count            runs it on made-up lines

millstream run examples/word_count.py
echo "all streams lead to kafka" | millstream produce lines
millstream consume word-counts --from-beginning
millstream tables get words kafka --app word-count
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from examples.playing import Sent, play
from millstream import App

app = App("word-count")  # log and state in ./millstream-data

(
    app.stream("lines", value=str)
    .flat_map_values(lambda line: line.lower().split())
    .group_by(lambda word: word)
    .count(name="words")  # a table with a stable name, readable while the app runs
    .to_stream()
    .to("word-counts")
)

_WORDS = ("the", "mill", "turns", "while", "water", "runs", "and", "the", "stream", "carries", "the", "grain")


def data(seed: int = 7, lines: int = 500) -> Iterator[Sent]:
    """Yield lines of a few words each."""
    pick = random.Random(seed)
    for number in range(lines):
        yield Sent("lines", None, " ".join(pick.choices(_WORDS, k=pick.randrange(3, 9))), number * 100)


def show(app: App) -> None:
    """Print the most frequent words."""
    print()
    for word, count in sorted(app.tables["words"].items(), key=lambda row: -row[1])[:5]:
        print(f"  {word:<8} {count:>5}")


if __name__ == "__main__":
    play(app, data(), show)
