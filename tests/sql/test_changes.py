import pytest

from millstream import App
from millstream.errors import SqlError
from millstream.plan.changes import StageChange, StoredPlan, compare
from millstream.plan.describe import view
from millstream.testing import TestDriver

RIDES = """CREATE STREAM rides (id INT KEY, zone STRING, km BIGINT, eur BIGINT)
    WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='JSON');"""
ZONES = "CREATE TABLE zones AS SELECT zone, SUM({argument}) AS total FROM rides {where} GROUP BY {group};"
JOIN = """INSERT INTO pairs {name}
    SELECT a.id AS id, a.zone AS zone FROM rides a JOIN rides b WITHIN {within} ON a.id = b.id;"""
PAIRS = "CREATE STREAM pairs (id INT KEY, zone STRING) WITH (KAFKA_TOPIC='pairs', VALUE_FORMAT='JSON');"


def zones(argument: str = "km", where: str = "", group: str = "zone") -> str:
    return RIDES + ZONES.format(argument=argument, where=where, group=group)


def stored(text: str) -> StoredPlan:
    app = App("taxi")
    app.sql(text)
    plan = app.plan
    return StoredPlan(plan=view(plan), partitions={stage.name: 4 for stage in plan.stages})


def fates(before: str, now: str) -> dict[str, StageChange]:
    return {change.stage: change for change in compare(stored(before), stored(now))}


def test_a_changed_condition_keeps_the_state() -> None:
    changes = fates(zones(), zones(where="WHERE km > 1"))
    assert {change.fate for change in changes.values()} == {"reused"}


def test_added_and_removed_statements_leave_others_alone() -> None:
    other = "CREATE TABLE ids AS SELECT eur, COUNT(*) AS n FROM rides GROUP BY eur;"
    added = fates(zones(), zones() + other)
    assert added["ZONES-repartition"].fate == "reused"
    assert added["IDS-repartition"].fate == "new"
    assert fates(zones() + other, zones())["IDS-repartition"].fate == "dropped"
    moved = fates(zones() + other, RIDES + other + zones().removeprefix(RIDES))
    assert {change.fate for change in moved.values()} == {"reused"}


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (zones("eur"), r"aggregated of IFNULL\(`KM`.* and would be aggregated of IFNULL\(`EUR`"),
        (zones(group="UCASE(zone)").replace("SELECT zone", "SELECT UCASE(zone) AS zone"), r"by UCASE\(`ZONE`\)"),
        (zones().replace("SUM", "MAX"), r"by agg\(TOTAL=sum\) and would be aggregated by agg\(TOTAL=max\)"),
        (zones().replace("FROM rides", "FROM rides WINDOW TUMBLING (SIZE 1 HOUR)"), "would be created by"),
    ],
)
def test_a_change_of_meaning_is_refused_with_the_reason(now: str, reason: str) -> None:
    change = fates(zones(), now)["ZONES-repartition"]
    assert change.fate == "incompatible"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(change.reasons[0])


def test_inserting_queries_that_keep_state_are_named_by_sources_or_by_the_user() -> None:
    first = JOIN.format(name="", within="1 HOUR")
    second = JOIN.format(name="WITH (QUERY_ID = 'near')", within="1 MINUTE")
    both = fates(RIDES + PAIRS + first + second, RIDES + PAIRS + second + first)
    assert {change.fate for change in both.values()} == {"reused"}
    with pytest.raises(SqlError, match="two queries that keep state are called PAIRS-from-RIDES-RIDES; name this one"):
        stored(RIDES + PAIRS + first + JOIN.format(name="", within="1 MINUTE"))


def test_a_replaced_query_ends() -> None:
    app = App("taxi")
    app.sql(RIDES + "CREATE STREAM far AS SELECT id, km FROM rides; CREATE STREAM near AS SELECT id, km FROM rides;")
    app.sql("CREATE OR REPLACE STREAM far AS SELECT id, km, eur FROM rides WHERE km > 10; DROP STREAM near;")
    with TestDriver(app) as driver:
        driver.topic("rides").pipe({"KM": 5, "EUR": 1}, {"KM": 50, "EUR": 9}, key=1)
        assert driver.topic("FAR").read_values() == [{"KM": 50, "EUR": 9}]
        assert "NEAR" not in app.plan.sink_topics


def test_a_replacement_may_only_add_columns() -> None:
    app = App("taxi")
    app.sql(RIDES + "CREATE STREAM far AS SELECT id, km FROM rides;")
    with pytest.raises(SqlError, match="columns of FAR cannot change; only add columns at the end"):
        app.sql("CREATE OR REPLACE STREAM far AS SELECT id, eur FROM rides;")


def test_an_edited_file_shows_its_changes() -> None:
    lines = [str(change) for change in fates(zones(), zones("eur")).values()]
    assert any(line.startswith("incompatible  ZONES-repartition: 'ZONES' was aggregated of") for line in lines)
