"""``millstream init``: make a project to start from."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.cli.command import Command
from millstream.cli.output import say
from millstream.cli.settings import Settings, pass_settings
from millstream.names import check_name

_APP = '''"""Revenue per customer, and in windows of a minute."""

import msgspec

from millstream import App, tumbling

app = App("{name}")


class Order(msgspec.Struct):
    customer: str
    item: str
    cents: int


orders = app.stream("orders", value=Order).group_by(lambda order: order.customer)
orders.sum("cents", name="revenue").to_stream().to("revenue")
orders.windowed_by(tumbling("1 min", grace="30 s")).count(name="orders_per_minute")

if __name__ == "__main__":
    app.main()
'''

_TEST = """from {module} import Order, app

from millstream.testing import TestDriver


def test_revenue_adds_up() -> None:
    with TestDriver(app) as driver:
        driver.topic("orders").pipe(Order("ada", "pen", 250), Order("bob", "cup", 900), Order("ada", "ink", 50))

        assert driver.topic("revenue").read_key_values() == [("ada", 250), ("bob", 900), ("ada", 300)]
        assert driver.table("revenue")["ada"] == 300
"""

_README = """# {name}

```sh
pytest                                              # no Spark, no broker, milliseconds
millstream datagen orders --rate 200                # in one terminal: made-up orders
millstream run {module}.py                          # in another: the app, on Spark
millstream tables scan revenue --app {name}         # look into its table while it runs
millstream consume revenue --from-beginning         # or at its output
```

Log and state are in `./millstream-data`. On Kafka: set `MILLSTREAM_BROKER=kafka://127.0.0.1:9092` for all commands.
"""


@click.command(cls=Command, examples=["millstream init shop", "millstream init shop --into ~/projects/shop"])
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), help="The directory to make; by default it is called NAME.")
@pass_settings
def init(_settings: Settings, name: str, into: Path | None) -> None:
    """Make a directory with an app, a test that passes, and a README that says what to type.

    Nothing is overwritten: a directory that has something in it is refused.
    """
    check_name("app", name)
    place, module = into or Path(name), name.replace("-", "_").replace(".", "_")
    if not module.isidentifier():
        raise click.UsageError(f"{name!r} cannot be the name of a Python file; begin with a letter")
    if place.exists() and any(place.iterdir()):
        raise click.UsageError(f"{str(place)!r} is not empty; choose another place with --into")
    place.mkdir(parents=True, exist_ok=True)
    for file, text in (
        (f"{module}.py", _APP),
        (f"test_{module}.py", _TEST),
        ("README.md", _README),
        (".gitignore", "millstream-data/\n__pycache__/\n.venv/\n"),
    ):
        (place / file).write_text(text.format(name=name, module=module) if file != ".gitignore" else text)
    say(f"made {place}; next: cd {place} && pytest")
