from itertools import pairwise

from examples.stock_market import Trade, app, data

from millstream.testing import TestDriver

DAY = 86_400_000


def test_statistics_cover_five_seconds() -> None:
    with TestDriver(app) as driver:
        for price, second in ((10.0, 0), (14.0, 2), (12.0, 4), (99.0, 5)):
            driver.topic("trades").pipe(Trade(price, 1), key="ACME", timestamp=second * 1000)
        windows = {row.key.start: row.value for row in driver.table("stats").windows("ACME")}
        assert windows[0] == {"low": 10.0, "high": 14.0, "average": 12.0, "trades": 3}
        assert windows[5000]["high"] == 99.0


def test_the_top_ten_follows_the_gains_of_the_day() -> None:
    with TestDriver(app) as driver:
        for number in range(12):
            for price, second in ((100.0, 0), (100.0 + number, 1)):
                driver.topic("trades").pipe(Trade(price, 1), key=f"S{number:02}", timestamp=second * 1000)
        gainers = driver.table("top_ten")[0]
        assert [symbol for symbol, _ in gainers] == [f"S{number:02}" for number in range(11, 1, -1)]
        driver.topic("trades").pipe(Trade(50.0, 1), key="S11", timestamp=2_000)  # falls and leaves the list
        assert driver.table("top_ten")[0][0][0] == "S10"


def test_data_is_deterministic_and_partly_late() -> None:
    first, second = list(data(3, 500)), list(data(3, 500))
    assert first == second
    assert any(later.timestamp < earlier.timestamp for earlier, later in pairwise(first))
