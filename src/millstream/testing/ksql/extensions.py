"""Cases of ksqlDB that expect a refusal where Millstream deliberately does more, each with its reason."""

from __future__ import annotations

ANY_FORMAT = "intermediate results are stored in a format of their own, so aggregates work with every value format"
ANY_JOIN = "joined rows are stored in a format of their own, so sources with the value format KAFKA can be joined"
WIDENED = "INTEGER and BIGINT together are BIGINT, there is nothing ambiguous about it"
N_WAY = "joins by foreign key can be chained"
BOUNDS = "the bounds of windows are columns of a grouped join as of any other windowed query"

EXTENSIONS: dict[str, str] = {
    "qtt/average-udaf/3": ANY_FORMAT,
    "qtt/correlation-udaf/3": ANY_FORMAT,
    "qtt/joins/26": ANY_JOIN,
    "qtt/joins/34": ANY_JOIN,
    "qtt/greatest/4": WIDENED,
    "qtt/least/4": WIDENED,
    "qtt/fk-n-way-join/2": N_WAY,
    "qtt/group-by/133": BOUNDS,
}
"""The reasons by the id of the case; such a case counts as exceeded, neither passed nor failed."""
