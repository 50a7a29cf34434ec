"""Cases of ksqlDB that expect a refusal where Millstream deliberately does more, each with its reason."""

from __future__ import annotations

ANY_FORMAT = "intermediate results are stored in a format of their own, so aggregates work with every value format"
ANY_JOIN = "joined rows are stored in a format of their own, so sources with the value format KAFKA can be joined"
WIDENED = "INTEGER and BIGINT together are BIGINT, there is nothing ambiguous about it"
N_WAY = "joins by foreign key can be chained"
BOUNDS = "the bounds of windows are columns of a grouped join as of any other windowed query"
ANY_TABLE = "tables that are only declared are read from their topics"
ANY_WHERE = "a pull query can have any condition; ranges and IN are look-ups too, so they are no scans"
CONVERTED = "text in IN takes the type of the column if it spells such a value, as in every other comparison"
NULL_KEY = "a key is never NULL, so the query has no rows"
ANY_QUERY = "a query without EMIT can have joins and LIMIT: it is computed up to the end of the topics"
WIDE_SUM = "SUM of DECIMAL(p, s) is DECIMAL(38, s): the sum of many rows does not stop the app by an overflow"
CHANGED_WINDOWS = "a changed query is a change of topology, also if it has windows"

EXTENSIONS: dict[str, str] = {
    "qtt/average-udaf/3": ANY_FORMAT,
    "qtt/correlation-udaf/3": ANY_FORMAT,
    "qtt/joins/26": ANY_JOIN,
    "qtt/joins/34": ANY_JOIN,
    "qtt/sum/5": WIDE_SUM,
    "qtt/sum/7": WIDE_SUM,
    "qtt/greatest/4": WIDENED,
    "qtt/least/4": WIDENED,
    "qtt/fk-n-way-join/2": N_WAY,
    "qtt/group-by/133": BOUNDS,
    "rest/pull-queries-against-ctas-materialized/7": ANY_TABLE,
    "rest/pull-queries-against-materialized-aggregates/44": ANY_WHERE,
    "rest/pull-queries-against-materialized-aggregates/73": CONVERTED,
    "rest/pull-queries-against-materialized-aggregates/80": CONVERTED,
    "rest/pull-queries-against-materialized-aggregates/83": NULL_KEY,
    "rest/pull-queries-against-materialized-aggregates/103": ANY_WHERE,
    "rest/pull-queries-against-materialized-aggregates/106": ANY_WHERE,
    "rest/pull-queries-against-streams/4": ANY_QUERY,
    "rest/pull-queries-with-limit-clause/5/JSON": ANY_QUERY,
    "script/filters/17": CHANGED_WINDOWS,
}
"""The reasons by the id of the case; such a case counts as exceeded, neither passed nor failed."""
