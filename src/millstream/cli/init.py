"""``millstream init``: create a new project."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.cli.command import Command
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.names import check_name

_APP = '''"""Revenue per customer, and orders per customer and minute."""

import msgspec

from millstream import App, Windowed, tumbling

app = App("{name}")


class Order(msgspec.Struct):
    customer: str
    item: str
    cents: int


orders = app.stream("orders", value=Order).group_by(lambda order: order.customer)
orders.sum("cents", name="revenue").to_stream().to("revenue")

per_minute = orders.windowed_by(tumbling("1 min", grace="30 s")).count(name="orders_per_minute")
per_minute.to_stream().to("orders-per-minute", key=Windowed)  # the key of a window: key, start, end

if __name__ == "__main__":
    app.main()
'''

_TEST = """from {module} import Order, app

from millstream import Windowed
from millstream.testing import TestDriver

MINUTE = 60_000  # times are milliseconds


def test_revenue_adds_up() -> None:
    with TestDriver(app) as driver:
        driver.topic("orders").pipe(Order("ada", "pen", 250), Order("bob", "cup", 900), Order("ada", "ink", 50))

        assert driver.topic("revenue").read_key_values() == [("ada", 250), ("bob", 900), ("ada", 300)]
        assert driver.table("revenue")["ada"] == 300


def test_orders_are_counted_by_minute() -> None:
    with TestDriver(app) as driver:
        for second in (0, 59, 60):
            driver.topic("orders").pipe(Order("ada", "pen", 250), timestamp=second * 1000)

        first, second = Windowed("ada", 0, MINUTE), Windowed("ada", MINUTE, 2 * MINUTE)
        assert driver.topic("orders-per-minute").read_key_values() == [(first, 1), (first, 2), (second, 1)]
        assert driver.table("orders_per_minute")[first] == 2
"""

_PYPROJECT = """[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["millstream"]

[project.optional-dependencies]
test = ["pytest>=9"]

[tool.setuptools]
py-modules = ["{module}"]

[tool.pytest.ini_options]
testpaths = ["."]
pythonpath = ["."]
"""

_README = """# {name}

The app is `{module}.py`, its test `test_{module}.py`. `pyproject.toml` lists what they need. Run both:

```sh
pytest                                     # without Spark or a broker
millstream run {module}.py{run_gap}# on Spark; Ctrl-C stops it
```

While the app runs, in another terminal, in this directory and with the same environment:

```sh
millstream datagen orders --max 1000       # generated orders
echo '{{"customer": "ada", "item": "pen", "cents": 250}}' | millstream produce orders
millstream tables get revenue ada          # reads a table while the app runs
millstream tables scan orders_per_minute --limit 5
millstream consume revenue --from-beginning --no-follow --max 5
```

Next, change the class and the operations in `{module}.py`, then the test. To join with a table, use
`app.table("customers", value=Customer)` and fill its topic with `millstream produce customers --key c1`.

The log and all state are stored in `./millstream-data`; delete the directory to start over. To use Kafka, set
`MILLSTREAM_BROKER=kafka://127.0.0.1:9092` for all commands.
"""


@click.command(cls=Command, examples=["millstream init shop", "millstream init shop --into ~/projects/shop"])
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), help="Directory to create.  [default: NAME]")
@pass_settings
def init(_settings: CommonOptions, name: str, into: Path | None) -> None:
    """Create a directory with an app, a passing test, a pyproject.toml, and a README with the commands to run them.

    The directory must be empty or new; nothing is overwritten.
    """
    check_name("app", name)
    directory, module = into or Path(name), name.replace("-", "_").replace(".", "_")
    if not module.isidentifier():
        raise click.UsageError(f"{name!r} cannot be the name of a Python module; start it with a letter")
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{str(directory)!r} is not empty; choose another directory with --into")
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in (
        (f"{module}.py", _APP),
        (f"test_{module}.py", _TEST),
        ("pyproject.toml", _PYPROJECT),
        ("README.md", _README),
        (".gitignore", "millstream-data/\n__pycache__/\n.venv/\n"),
    ):
        gap = " " * max(1, len("pytest                                     ") - len(f"millstream run {module}.py"))
        (directory / file).write_text(text.format(name=name, module=module, run_gap=gap) if "{" in text else text)
    show_message(f"created {directory}; next: cd {directory} && pytest, then see its README.md")
