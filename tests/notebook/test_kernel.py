"""Apps that are defined in the cells of a notebook, in a real Jupyter kernel, on Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.examples.test_notebook import code_cells
from tests.notebook.kernel import CellError, Kernel, running_kernel

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("notebook")]

IMPORTS = """
import dataclasses, msgspec, threading
from typing import TypedDict
from millstream import App, Processor, Record, key_value_store
from millstream.broker import TopicConfig
from millstream.notebook import live_chart, live_table

def send(topic, *values):
    with app.producer() as producer:
        for value in values:
            producer.send(topic, value)

def topics(*names):
    for name in names:
        app.broker.create_topic(name, TopicConfig(partitions=2))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with imports; its Spark is started once, so the tests share it."""
    directory = tmp_path_factory.mktemp("notebook")
    (directory / "beside.py").write_text("def double(number):\n    return number * 2\n")
    with running_kernel(directory) as kernel:
        kernel.run(IMPORTS)
        yield kernel


def test_classes_and_functions_of_cells_are_used_in_workers(kernel: Kernel) -> None:
    kernel.run("""
class Item(msgspec.Struct, rename="camel"):
    unit_price: float
    count: int = 1

class Order(msgspec.Struct, frozen=True):
    user: str
    items: list["Item"] = []

@dataclasses.dataclass
class Bill:
    user: str
    total: float

class Line(TypedDict):
    text: str

from beside import double
RATE = 2

def bill(order: Order) -> Bill:
    return Bill(order.user, RATE * sum(item.unit_price * item.count for item in order.items))

class Numbered(Processor):
    stores = {"numbers": key_value_store(value=Line)}
    def process(self, record):
        numbers = self.context.store("numbers")
        line = Line(text=numbers.get("last", {"text": ""})["text"] + "x")
        numbers.put("last", line)
        self.context.forward(record, value=line)
""")
    kernel.run("""
app = App("cells", data_dir="data")
app.broker.create_topic("orders", TopicConfig(partitions=1))
orders = app.stream("orders", value=Order)
bills = orders.map_values(bill)
totals = bills.group_by(lambda b: b.user).reduce(lambda a, b: Bill(b.user, a.total + b.total), name="totals")
orders.map_values(lambda order: double(len(order.items))).to("sizes")
orders.process(Numbered, name="numbered").to("lines")
send("orders", {"user": "ada", "items": [{"unitPrice": 1.5, "count": 2}, {"unitPrice": 4}]}, {"user": "ada"})
send("orders", {"user": "bob", "items": [{"unitPrice": 1}]})
app.start("caught-up").wait()
""")
    shown = kernel.run("{row.key: row.value for row in app.tables['totals'].scan()}")
    assert shown["text/plain"] == "{'ada': Bill(user='ada', total=14.0), 'bob': Bill(user='bob', total=2.0)}"
    sizes = kernel.run("sorted(r.value for r in app.consumer(topics='sizes', value=int, stop_at_end=True))")
    assert sizes["text/plain"] == "[0, 2, 4]"
    lines = kernel.run("[r.value for r in app.consumer(topics='lines', value=Line, stop_at_end=True)]")
    assert lines["text/plain"] == "[{'text': 'x'}, {'text': 'xx'}, {'text': 'xxx'}]"
    assert "<td>ada</td>" in kernel.run("app.tables['totals']")["text/html"]
    assert kernel.run("totals")["image/svg+xml"].startswith("<svg")
    assert kernel.run("app.tables['totals'].to_pandas()['total'].sum()")["text/plain"] == "np.float64(16.0)"


def test_a_cell_that_is_run_again_with_another_class_changes_the_app(kernel: Kernel) -> None:
    cell = """
class Count(msgspec.Struct):
    n: int = 0
    FIELD

def count(total, number):
    return Count(total.n + STEP)

app = App("again", data_dir="again")
app.stream("numbers", value=int).group_by(lambda number: "all").aggregate(Count, count, name="counts")
"""
    kernel.run(cell.replace("FIELD", "").replace("STEP", "1"))
    kernel.run("topics('numbers'); send('numbers', 1, 2, 3); app.start('caught-up').wait()")
    assert kernel.run("app.tables['counts']['all']")["text/plain"] == "Count(n=3)"
    kernel.run(cell.replace("FIELD", "note: str = 'new'").replace("STEP", "10"))
    kernel.run("send('numbers', 4); app.start('caught-up').wait()")
    assert kernel.run("app.tables['counts']['all']")["text/plain"] == "Count(n=13, note='new')"


def test_start_returns_and_an_app_that_is_defined_again_stops_its_run(kernel: Kernel) -> None:
    define = "app = App('back', data_dir='back'); app.stream('in', value=int).map_values(lambda n: 1 // n).to('out')"
    kernel.run(f"{define}; topics('in'); run = app.start()")
    assert kernel.run("run")["text/plain"] == "<run of app back, running>"
    with pytest.raises(CellError, match=r"app 'back' is already running.*; stop it first: app\.stop\(\)"):
        kernel.run(f"{define}; app.start()")
    kernel.run("app.stop()")
    assert kernel.run("run")["text/plain"] == "<run of app back, ended>"


def test_the_cell_that_waits_shows_the_error_of_a_run_in_the_background(kernel: Kernel) -> None:
    kernel.run(
        "app = App('fails', data_dir='fails'); app.stream('in', value=int).map_values(lambda n: 1 // n).to('out')"
    )
    kernel.run("topics('in'); run = app.start(); send('in', 0)")
    with pytest.raises(CellError, match=r"ProcessingError: node 'in.map_values' failed.*ZeroDivisionError"):
        kernel.run("run.wait()")
    assert "failed: ProcessingError" in kernel.run("run")["text/plain"]


def test_a_topology_that_cannot_be_sent_is_refused_in_the_cell_that_starts_it(kernel: Kernel) -> None:
    kernel.run("lock = threading.Lock()\ndef locked(value):\n    with lock:\n        return value")
    kernel.run("app = App('refused', data_dir='refused'); app.stream('in').map_values(locked).to('out'); topics('in')")
    with pytest.raises(CellError, match=r"locked\(\) in 'in.map_values' uses 'lock', a lock.*%%writefile app\.py"):
        kernel.run("app.start()")


def test_live_views_follow_the_app_and_stop(kernel: Kernel) -> None:
    kernel.run("""
app = App("live", data_dir="live")
app.stream("words").group_by(lambda word: word).count(name="counts")
topics("words")
run = app.start()
table = live_table(app.tables["counts"], every="50 ms")
chart = live_chart(app.tables["counts"], every="50 ms")
""")
    kernel.run("send('words', 'mill', 'mill', 'stream')")
    kernel.wait_for_display("<td>mill</td><td>2</td>")
    kernel.wait_for_display("counts: value")
    kernel.wait_for_display(">stream</text>")
    kernel.run("app.stop(); again = live_table(app.tables['counts']); again.stop(); chart.stop()")
    assert kernel.run("table.is_running, chart.is_running, again.is_running")["text/plain"] == "(False, False, False)"


def test_interrupting_a_cell_leaves_the_run_and_spark_alive(kernel: Kernel) -> None:
    kernel.run(
        "app = App('calm', data_dir='calm'); app.stream('in', value=int).to('out'); topics('in'); run = app.start()"
    )
    kernel.start("print('waiting', flush=True); run.wait()", printing="waiting")
    kernel.interrupt()
    with pytest.raises(CellError, match="KeyboardInterrupt"):
        kernel.finish()
    kernel.run("send('in', 7)")
    read = "next(iter(app.consumer(topics='out', value=int, timeout='30 s'))).value"
    assert kernel.run(read)["text/plain"] == "7"
    kernel.run("app.stop()")


def test_the_example_notebook_runs_and_shows_its_topology_tables_and_views(kernel: Kernel) -> None:
    shown: dict[str, dict[str, str]] = {}
    kernel.displays.clear()
    for cell in code_cells():
        source = "".join(cell["source"])
        shown[source.splitlines()[-1]] = kernel.run(source)
    views = [text for data in kernel.displays.values() for text in data.values()]
    assert "per_minute" in shown["app"]["image/svg+xml"]
    assert shown["run"]["text/plain"] == "<run of app shops, running>"
    assert "<td>Bern</td><td>110</td>" in shown['app.tables["totals"]']["text/html"]
    assert "Bern" in shown['frame.pivot(index="window_start", columns="key", values="revenue")']["text/html"]
    assert any("<strong>totals</strong>: " in view for view in views)
    assert any("per_minute: " in view for view in views)


def test_a_script_on_stdin_runs_with_its_own_classes(tmp_path: Path) -> None:
    program = f"""{IMPORTS}
class Word(msgspec.Struct):
    text: str
    next: "Word | None" = None

app = App("stdin", data_dir="data")
topics("words")
app.stream("words", value=Word).map_values(lambda word: Word(word.text.upper(), word)).to("loud")
send("words", Word("mill"))
app.run("caught-up")
print([record.value for record in app.consumer(topics="loud", value=Word, stop_at_end=True)])
"""
    output = tmp_path / "output"  # a pipe would stay open until Spark's JVM has ended too
    with output.open("w") as file:
        subprocess.run(
            [sys.executable, "-"], input=program, stdout=file, text=True, cwd=tmp_path, timeout=120, check=True
        )
    assert output.read_text() == "[Word(text='MILL', next=Word(text='mill', next=None))]\n"
