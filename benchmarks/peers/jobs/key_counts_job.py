"""Records per key with Millstream; the topics and the name of the app come from the environment."""

from __future__ import annotations

import os

from millstream import App, Config

SOURCE, TARGET = os.environ.get("KEY_COUNTS_TOPICS", "n,out").split(",")
app = App(os.environ.get("KEY_COUNTS_APP", "key-counts"), config=Config(partitions=2))
app.stream(SOURCE, value=str).group_by_key().count(name="counts").to_stream().to(TARGET)

if __name__ == "__main__":
    app.run()
