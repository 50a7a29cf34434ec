"""Count words: lines in, one count per word out.

millstream run examples/word_count.py
echo "all streams lead to kafka" | millstream produce lines
millstream consume word-counts --from-beginning
millstream tables get words kafka --app word-count
"""

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

if __name__ == "__main__":
    app.main()
