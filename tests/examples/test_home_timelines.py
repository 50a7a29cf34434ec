from examples.home_timelines import Follow, Tweet, app, data

from millstream.testing import TestDriver


def timeline(driver: TestDriver, person: str) -> list[str]:
    return [tweet.text for tweet in driver.table("timelines").get(person, [])]


def test_a_timeline_follows_sending_deleting_following_and_unfollowing() -> None:
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


def test_timelines_are_what_one_would_collect_by_hand() -> None:
    tweets, follows = dict[str, Tweet](), dict[str, Follow]()
    with TestDriver(app) as driver:
        for sent in data(seed=11, events=120):
            driver.topic(sent.topic).pipe(sent.value, key=sent.key, timestamp=sent.timestamp)
            rows: dict[str, object] = tweets if sent.topic == "tweets" else follows  # type: ignore[assignment]
            rows.pop(sent.key, None)
            if sent.value is not None:
                rows[sent.key] = sent.value
        for person in {follow.follower for follow in follows.values()}:
            authors = {follow.author for follow in follows.values() if follow.follower == person}
            by_hand = sorted((tweet.at for tweet in tweets.values() if tweet.author in authors), reverse=True)
            assert [tweet.at for tweet in driver.table("timelines").get(person, [])] == by_hand
