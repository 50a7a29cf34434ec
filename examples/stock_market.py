"""Stock market: windowed statistics, moving averages, and the top gainers of each day.

python -m examples.stock_market          runs it on generated trades
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from examples.harness import Input, run_example
from millstream import App, count_of, first_of, hopping, last_of, max_of, mean_of, min_of, sliding, tumbling


class Trade(msgspec.Struct):
    """A trade; the record's key is the symbol."""

    price: float
    shares: int


app = App("stock-market")
stream = app.stream("trades", key=str, value=Trade)
trades = stream.group_by_key()

trades.windowed_by(hopping("5 s", every="1 s", grace="2 s")).agg(
    low=min_of("price"), high=max_of("price"), average=mean_of("price"), trades=count_of(), name="stats"
)
trades.windowed_by(sliding("10 s", grace="2 s")).mean("price", name="moving_average")
trades.windowed_by(tumbling("1 min", grace="2 s"), late_to="trades.late").quantile(
    0.99, "shares", name="p99_of_shares", retention="1 h"
)

# the price of each stock, now and at any time in the last ten minutes
stream.map_values(lambda trade: trade.price).to_table(name="prices", history="10 min")

# first phase: the gain per stock and day; second phase: all stocks of a day, grouped under one key
day = trades.windowed_by(tumbling("1 d", grace="1 min")).agg(first=first_of("price"), last=last_of("price"))
gains = day.map_values(lambda prices: round(prices["last"] / prices["first"] - 1, 4))
(
    gains.group_by(lambda window, _gain: window.start, values=lambda window, gain: (window.key, gain))
    .aggregate(
        dict[str, float],
        lambda gains, stock: {**gains, stock[0]: stock[1]},
        lambda gains, stock: {symbol: gain for symbol, gain in gains.items() if symbol != stock[0]},
    )
    .map_values(lambda gains: sorted(gains.items(), key=lambda stock: -stock[1])[:10], name="top_ten")
)

_SYMBOLS = ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE", "HILL", "IRON", "JADE", "KITE", "LOOM")
_OPENING = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)


def data(seed: int = 7, trades: int = 2_000) -> Iterator[Input]:
    """Yield trades of two days at random prices; of 200 trades, ten are a second late and one is minutes late."""
    rng = random.Random(seed)
    price = {symbol: rng.uniform(20, 200) for symbol in _SYMBOLS}
    for number in range(trades):
        clock = _OPENING + number * 120 + (86_400_000 if number >= trades // 2 else 0)
        symbol = rng.choice(_SYMBOLS)
        price[symbol] *= 1 + rng.gauss(0.0002, 0.004)
        chance = rng.random()
        delay = 180_000 if chance < 0.005 else 1_000 if chance < 0.055 else 0
        yield Input("trades", symbol, Trade(round(price[symbol], 2), rng.randrange(1, 500)), clock - delay)


def show(app: App) -> None:
    """Print the top gainers of each day, the busiest five seconds of some stocks, and the number of late trades."""
    for start, gainers in sorted(app.tables["top_ten"].items()):
        print(f"\n{datetime.fromtimestamp(start / 1000, UTC):%A}: top ten gainers")
        print("  " + "  ".join(f"{symbol} {gain:+.1%}" for symbol, gain in gainers))
    print("\n        busiest recent five seconds               10 s moving average      99 % of trades")
    for symbol in _SYMBOLS[:5]:
        busiest = max(app.tables["stats"].windows(symbol), key=lambda row: row.value["trades"])
        stats, start_time = busiest.value, datetime.fromtimestamp(busiest.key.start / 1000, UTC)
        averages = app.tables["moving_average"].windows(symbol)
        last_trade = max(row.timestamp for row in averages)
        moving_average = next(row.value for row in averages if row.key.end == last_trade)
        p99 = app.tables["p99_of_shares"].windows(symbol)[-1].value
        print(
            f"  {symbol}  {start_time:%H:%M:%S}  trades {stats['trades']}  "
            f"{stats['low']:>6.2f} … {stats['high']:>6.2f}  ø {stats['average']:>6.2f}    "
            f"{moving_average:>6.2f}          up to {p99:.0f} shares"
        )
    with app.consumer(topics=["trades.late"], key=str) as consumer:
        print(f"\n{len(consumer.poll('1 s'))} trades were too late for their minute and were written to trades.late")


if __name__ == "__main__":
    run_example(app, data(), show)
