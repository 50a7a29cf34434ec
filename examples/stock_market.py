"""Stock market: statistics in windows, moving averages, and the stocks that gained most each day.

python -m examples.stock_market          runs it on made-up trades
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from examples.playing import Sent, play
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

# the price of each stock, now and at any moment of the last ten minutes
stream.map_values(lambda trade: trade.price).to_table(name="prices", history="10 min")

# first phase: per stock and day how much it gained; second phase: all stocks of a day meet on one key
day = trades.windowed_by(tumbling("1 d", grace="1 min")).agg(first=first_of("price"), last=last_of("price"))
gains = day.map_values(lambda prices: round(prices["last"] / prices["first"] - 1, 4))
(
    gains.group_by(lambda window, _gain: window.start, values=lambda window, gain: (window.key, gain))
    .aggregate(
        dict,
        lambda known, stock: {**known, stock[0]: stock[1]},
        lambda known, stock: {name: gain for name, gain in known.items() if name != stock[0]},
    )
    .map_values(lambda known: sorted(known.items(), key=lambda stock: -stock[1])[:10], name="top_ten")
)

_SYMBOLS = ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE", "HILL", "IRON", "JADE", "KITE", "LOOM")
_OPENING = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)


def data(seed: int = 7, trades: int = 2_000) -> Iterator[Sent]:
    """Yield trades of two days; prices walk at random. Of 200 trades ten are reported a second late, one minutes."""
    pick = random.Random(seed)
    price = {symbol: pick.uniform(20, 200) for symbol in _SYMBOLS}
    for number in range(trades):
        clock = _OPENING + number * 120 + (86_400_000 if number >= trades // 2 else 0)
        symbol = pick.choice(_SYMBOLS)
        price[symbol] *= 1 + pick.gauss(0.0002, 0.004)
        dice = pick.random()
        late = 180_000 if dice < 0.005 else 1_000 if dice < 0.055 else 0
        yield Sent("trades", symbol, Trade(round(price[symbol], 2), pick.randrange(1, 500)), clock - late)


def show(app: App) -> None:
    """Print the winners of each day, the liveliest five seconds of some stocks, and what came too late."""
    for start, winners in sorted(app.tables["top_ten"].items()):
        print(f"\n{datetime.fromtimestamp(start / 1000, UTC):%A}: the ten that gained most")
        print("  " + "  ".join(f"{symbol} {gain:+.1%}" for symbol, gain in winners))
    print("\n        the liveliest five seconds of late        moving average of 10 s   99 % of trades")
    for symbol in _SYMBOLS[:5]:
        liveliest = max(app.tables["stats"].windows(symbol), key=lambda row: row.value["trades"])
        stats, when = liveliest.value, datetime.fromtimestamp(liveliest.key.start / 1000, UTC)
        averages = app.tables["moving_average"].windows(symbol)
        newest = max(row.timestamp for row in averages)
        moving = next(
            row.value for row in averages if row.key.end == newest
        )  # of the ten seconds before the last trade
        p99 = app.tables["p99_of_shares"].windows(symbol)[-1].value
        print(
            f"  {symbol}  {when:%H:%M:%S}  trades {stats['trades']}  {stats['low']:>6.2f} … {stats['high']:>6.2f}  "
            f"ø {stats['average']:>6.2f}    {moving:>6.2f}          up to {p99:.0f} shares"
        )
    with app.consumer(topics=["trades.late"], key=str) as consumer:
        print(f"\n{len(consumer.poll('1 s'))} trades came minutes too late and went to trades.late")


if __name__ == "__main__":
    play(app, data(), show)
