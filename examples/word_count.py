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
    """Yield lines of a few words each; one in ten was written a second before it came."""
    pick = random.Random(seed)
    for number in range(lines):
        clock = number * 100 + (0 if pick.random() < 0.1 else 1_000)
        yield Sent("lines", None, " ".join(pick.choices(_WORDS, k=pick.randrange(3, 9))), clock)


def show(app: App) -> None:
    """Print the words by how often they came."""
    rows = sorted(app.tables["words"].items(), key=lambda row: -row[1])
    most = rows[0][1]
    print()
    for word, count in rows:
        print(f"  {word:<8} {count:>5}  {'█' * round(40 * count / most)}")
    print(f"\n{sum(count for _, count in rows):,} words in all, {len(rows)} different ones")


if __name__ == "__main__":
    play(app, data(), show)
