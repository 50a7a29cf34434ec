"""Word count: read lines, write the count of each word.

python -m examples.word_count            runs it on generated lines

millstream run examples/word_count.py
echo "all streams lead to kafka" | millstream produce lines
millstream consume word-counts --from-beginning
millstream tables get words kafka --app word-count
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from examples.harness import Input, run_example
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


def data(seed: int = 7, lines: int = 500) -> Iterator[Input]:
    """Yield lines of a few words each; one in ten is a second late."""
    rng = random.Random(seed)
    for number in range(lines):
        clock = number * 100 + (0 if rng.random() < 0.1 else 1_000)
        yield Input("lines", None, " ".join(rng.choices(_WORDS, k=rng.randrange(3, 9))), clock)


def show(app: App) -> None:
    """Print the words by frequency."""
    rows = sorted(app.tables["words"].items(), key=lambda row: -row[1])
    highest = rows[0][1]
    print()
    for word, count in rows:
        print(f"  {word:<8} {count:>5}  {'█' * round(40 * count / highest)}")
    print(f"\n{sum(count for _, count in rows):,} words in total, {len(rows)} distinct")


if __name__ == "__main__":
    run_example(app, data(), show)
