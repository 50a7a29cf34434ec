from examples.card_fraud import FORGET_MS, Payment, app

from millstream.testing import TestDriver


def alarms(driver: TestDriver, *payments: tuple[int, str, int]) -> list[str]:
    for cents, country, timestamp in payments:
        driver.topic("payments").pipe(Payment(cents, country), key="card", timestamp=timestamp)
    values: list[str] = driver.topic("alarms").read_values()
    return values


def test_payments_in_two_countries_within_ten_minutes_raise_an_alarm() -> None:
    with TestDriver(app) as driver:
        assert alarms(driver, (500, "NO", 0), (500, "IT", 599_999)) == ["NO and IT within ten minutes"]
        assert alarms(driver, (500, "NO", 1_200_000)) == []


def test_a_large_payment_after_three_tiny_ones_raises_an_alarm() -> None:
    with TestDriver(app) as driver:
        tiny = [(101, "NO", second * 1000) for second in range(3)]
        assert alarms(driver, *tiny, (60_000, "NO", 5_000)) == ["600 after 3 tiny payments"]
        assert alarms(driver, *tiny[:2], (60_000, "NO", 5_000)) == []


def test_a_card_is_deleted_after_an_hour_of_inactivity() -> None:
    with TestDriver(app) as driver:
        alarms(driver, (500, "NO", 0))
        assert len(driver.table("watch.cards")) == 1
        driver.topic("payments").pipe(Payment(1, "NO"), key="other", timestamp=FORGET_MS)
        assert [key for key, _ in driver.table("watch.cards").items()] == ["other"]
