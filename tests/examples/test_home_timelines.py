from examples.home_timelines import Follow, Tweet, app, data

from millstream.testing import TestDriver


def timeline(driver: TestDriver, person: str) -> list[str]:
    return [tweet.text for tweet in driver.table("timelines").get(person, [])]


def test_a_timeline_reflects_new_and_deleted_tweets_and_follows() -> None:
    with TestDriver(app) as driver:
        tweets, follows = driver.topic("tweets"), driver.topic("follows")
        tweets.pipe(Tweet("bob", "first", 1), key="t1")
        follows.pipe(Follow("ada", "bob"), key="ada>bob")
        assert timeline(driver, "ada") == ["first"]
        tweets.pipe(Tweet("bob", "second", 2), key="t2")
        tweets.pipe(Tweet("cleo", "third", 3), key="t3")
        assert timeline(driver, "ada") == ["second", "first"]
        follows.pipe(Follow("ada", "cleo"), key="ada>cleo")
        assert timeline(driver, "ada") == ["third", "second", "first"]
        tweets.pipe(None, key="t1")
        assert timeline(driver, "ada") == ["third", "second"]
        follows.pipe(None, key="ada>bob")
        assert timeline(driver, "ada") == ["third"]


def test_timelines_contain_the_tweets_of_all_followed_authors() -> None:
    tweets, follows = dict[str, Tweet](), dict[str, Follow]()
    with TestDriver(app) as driver:
        for record in data(seed=11, events=120):
            driver.topic(record.topic).pipe(record.value, key=record.key, timestamp=record.timestamp)
            rows: dict[str, object] = tweets if record.topic == "tweets" else follows  # type: ignore[assignment]
            rows.pop(record.key, None)
            if record.value is not None:
                rows[record.key] = record.value
        for person in {follow.follower for follow in follows.values()}:
            authors = {follow.author for follow in follows.values() if follow.follower == person}
            expected = sorted((tweet.at for tweet in tweets.values() if tweet.author in authors), reverse=True)
            assert [tweet.at for tweet in driver.table("timelines").get(person, [])] == expected
