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
trades = app.stream("trades", key=str, value=Trade).group_by_key()

trades.windowed_by(hopping("5 s", every="1 s", grace="2 s")).agg(
    low=min_of("price"), high=max_of("price"), average=mean_of("price"), trades=count_of(), name="stats"
)
trades.windowed_by(sliding("10 s", grace="2 s")).mean("price", name="moving_average")
trades.windowed_by(tumbling("1 min", grace="2 s")).quantile(0.99, "shares", name="p99_of_shares")

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
    """Yield trades of two days; prices walk at random, and one trade in twenty is reported a second late."""
    pick = random.Random(seed)
    price = {symbol: pick.uniform(20, 200) for symbol in _SYMBOLS}
    for number in range(trades):
        clock = _OPENING + number * 120 + (86_400_000 if number >= trades // 2 else 0)
        symbol = pick.choice(_SYMBOLS)
        price[symbol] *= 1 + pick.gauss(0.0002, 0.004)
        late = 1_000 if pick.random() < 0.05 else 0
        yield Sent("trades", symbol, Trade(round(price[symbol], 2), pick.randrange(1, 500)), clock - late)


def show(app: App) -> None:
    """Print the winners of each day and the last statistics of some stocks."""
    for start, winners in sorted(app.tables["top_ten"].items()):
        print(f"\n{datetime.fromtimestamp(start / 1000, UTC):%A}: gained most")
        print("  " + "  ".join(f"{symbol} {gain:+.1%}" for symbol, gain in winners[:5]))
    print("\nthe last window of five seconds, and the 10 s moving average")
    for symbol in _SYMBOLS[:5]:
        stats = app.tables["stats"].windows(symbol)[-1].value
        moving = app.tables["moving_average"].windows(symbol)[-1].value
        print(f"  {symbol}  {stats['trades']} trades, {stats['low']:.2f} to {stats['high']:.2f}, moving {moving:.2f}")


if __name__ == "__main__":
    play(app, data(), show)
