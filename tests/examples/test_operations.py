from examples.operations import ERROR_LIMIT, LogLine, Purchase, Visit, app

from millstream.testing import TestDriver

MINUTE = 60_000


def test_one_alert_is_sent_when_errors_exceed_the_limit() -> None:
    with TestDriver(app) as driver:
        for _ in range(ERROR_LIMIT):
            driver.topic("logs").pipe(LogLine("ERROR", "x"), LogLine("INFO", "x"), key="cart", timestamp=0)
        assert driver.topic("alerts").read() == []
        driver.topic("logs").pipe(*[LogLine("ERROR", "x")] * 3, key="cart", timestamp=0)
        assert driver.topic("alerts").read_values() == ["cart: 6 errors within 5 minutes"]


def test_visits_are_counted_over_the_last_15_minutes() -> None:
    with TestDriver(app) as driver:
        for minute in (0, 5, 14, 15):
            driver.topic("visits").pipe(Visit("/"), key="v1", timestamp=minute * MINUTE)
        counts = {row.key.end // MINUTE: row.value for row in driver.table("visits_in_15_minutes").windows("/")}
        assert (counts[15], counts[16], counts[30]) == (3, 3, 1)


def test_a_session_ends_after_30_minutes_of_inactivity() -> None:
    with TestDriver(app) as driver:
        for page, minute in (("/", 0), ("/cart", 29)):
            driver.topic("visits").pipe(Visit(page), key="v1", timestamp=minute * MINUTE)
        driver.topic("visits").pipe(Visit("/help"), key="v2", timestamp=61 * MINUTE)
        assert driver.topic("sessions").read_key_values() == [("v1", ["/", "/cart"])]


def test_a_receipt_is_sent_immediately() -> None:
    with TestDriver(app) as driver:
        driver.topic("purchases").pipe(Purchase("ann", 1_999), key="p1")
        assert driver.topic("receipts").read_key_values() == [("p1", "ann paid 19.99")]
