from examples.click_stream import Activity, Click, Profile, Search, app

from millstream.testing import TestDriver


def test_a_click_is_enriched_with_profile_and_search() -> None:
    with TestDriver(app) as driver:
        driver.topic("user-profiles").pipe(Profile("Ann", "Oslo"), key="u1", timestamp=0)
        driver.topic("searches").pipe(Search("lamp"), key="u1", timestamp=1_000)
        driver.topic("clicks").pipe(Click("/lamp"), key="u1", timestamp=1_900)
        assert driver.topic("activity").read_values() == [Activity("/lamp", "Ann", "Oslo", "lamp")]
        assert driver.table("clicks_after_search")["lamp"] == 1


def test_a_click_without_a_search_is_emitted_after_the_grace_period() -> None:
    with TestDriver(app) as driver:
        driver.topic("clicks").pipe(Click("/cup"), key="u9", timestamp=5_000)
        assert driver.topic("activity").read_values() == []
        driver.topic("clicks").pipe(Click("/pen"), key="u8", timestamp=6_000)
        assert driver.topic("activity").read_values() == [Activity("/cup", "guest", "?")]
        assert len(driver.table("clicks_after_search")) == 0


def test_a_changed_profile_applies_to_later_clicks_only() -> None:
    with TestDriver(app) as driver:
        for city, clock in (("Oslo", 0), ("Rome", 9_000)):
            driver.topic("user-profiles").pipe(Profile("Ann", city), key="u1", timestamp=clock)
            driver.topic("searches").pipe(Search("lamp"), key="u1", timestamp=clock)
            driver.topic("clicks").pipe(Click("/lamp"), key="u1", timestamp=clock)
        assert dict(driver.table("clicks_per_city").items()) == {"Oslo": 1, "Rome": 1}
