from millstream import App
from millstream.testing import TestDriver


def test_group_by_groups_over_all_partitions() -> None:
    app = App("test")
    app.stream("words", value=str).group_by(lambda word: word[0]).count(name="letters")
    with TestDriver(app, partitions=4) as driver:
        for number, word in enumerate(["mill", "stream", "mud", "mole", "sand"]):
            driver.topic("words").pipe(word, key=str(number))
        assert dict(driver.table("letters").items()) == {"m": 3, "s": 2}


def test_group_by_none_is_dropped_before_the_edge() -> None:
    app = App("test")
    app.stream("words", value=str).group_by(lambda word: word[:1] or None).count(name="letters")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("", key="k")
        assert [report.dropped for report in driver.reports if report.dropped] == [{"letters-repartition: null_key": 1}]


def test_keys_of_different_types_are_different_keys() -> None:
    app = App("test")
    keys = [1, True, 1.0, "1", b"1", (1,)]
    app.stream("n", value=int).group_by(lambda n: keys[n]).count(name="seen")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(*range(len(keys)), 0)
        counts = {(type(key), key): count for key, count in driver.table("seen").items()}
    assert counts == {(type(key), key): 2 if key is keys[0] else 1 for key in keys}


def test_group_by_key_of_an_untouched_key_stays_on_its_task() -> None:
    app = App("test")
    app.stream("n", value=int).filter(lambda n: n > 0).group_by_key().count(name="seen")
    assert app.plan.levels == 1
    with TestDriver(app, partitions=4) as driver:
        driver.topic("n").pipe_pairs([("a", 1), ("b", 1), ("a", 2), ("b", -1)])
        assert dict(driver.table("seen").items()) == {"a": 2, "b": 1}
