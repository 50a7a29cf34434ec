from examples.bank import Fact, app, data

from millstream.testing import TestDriver


def test_a_transfer_moves_money_and_its_cancellation_moves_it_back() -> None:
    with TestDriver(app) as driver:
        driver.topic("facts").pipe(Fact("ann", "bob", 500), key="t1")
        driver.topic("facts").pipe(Fact("bob", "cleo", 200), key="t2")
        assert dict(driver.table("balances").items()) == {"ann": -500, "bob": 300, "cleo": 200}
        driver.topic("facts").pipe(Fact(), key="t1")
        assert {key: cents for key, cents in driver.table("balances").items() if cents} == {"bob": -200, "cleo": 200}


def test_money_is_never_made_or_lost() -> None:
    with TestDriver(app) as driver:
        for sent in data(transfers=60):
            driver.topic("facts").pipe(sent.value, key=sent.key, timestamp=sent.timestamp)
            assert sum(cents for _, cents in driver.table("balances").items()) == 0
