"""A table with a column of each type, and rows with their limits."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = """
id INT PRIMARY KEY, i1 TINYINT, u1 TINYINT UNSIGNED, y YEAR, i2 SMALLINT, u2 SMALLINT UNSIGNED, i3 MEDIUMINT,
u3 MEDIUMINT UNSIGNED, u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, d1 DECIMAL(10,2), d2 DECIMAL(30,10),
d3 DECIMAL(5,0) UNSIGNED, d4 DECIMAL(20,20), f FLOAT, g DOUBLE, b1 BIT(1), b9 BIT(9), c CHAR(10), v VARCHAR(300),
vl VARCHAR(20) CHARACTER SET latin1, vu VARCHAR(20) CHARACTER SET utf16, bi BINARY(4), vb VARBINARY(300), t TEXT,
bl BLOB, e ENUM('a','b','ü'), s SET('x','y','z'), da DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6),
ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL, ti TIME, ti1 TIME(1), ti6 TIME(6), j JSON, p POINT,
st INT AS (id + 1) STORED, vi INT AS (id * 2) VIRTUAL
"""
INSERTED: Final = (
    "id, i1, u1, y, i2, u2, i3, u3, u4, i8, u8, d1, d2, d3, d4, f, g, b1, b9, c, v, vl, vu, bi, vb, t, bl, e, s, da, "
    "dt, dt3, dt6, ts, ts2, ti, ti1, ti6, j, p"
)
ROWS: Final = (
    r"""1, -128, 255, 2024, -32768, 65535, -8388608, 16777215, 4294967295, -9223372036854775808, 18446744073709551615,
    -12345678.90, 12345678901234567890.0123456789, 99999, 0.00000000000000000001, 3.14, 2.5e-10, b'1', b'100000001',
    'abc', 'quo"te ü 😀', 'ü€', 'ü😀', x'6100', x'00ff0a', 'text\n', 'blob', 'ü', 'x,z', '2024-02-29',
    '2024-02-29 12:00:00', '2024-02-29 12:00:00.120', '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00',
    '2024-02-29 12:00:00.10', '-838:59:59', '-00:00:01.5', '12:34:56.000007',
    '{"a": [1, 2.5, null, true, false, "x\\"y", -3, 70000, -70000, 18446744073709551615, 1e100], "b": {}, "": "ü"}',
    ST_GeomFromText('POINT(1 2)')""",
    "2" + ", NULL" * 39,
    """3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'0', b'0', '', '', '', '', '', '', '', '', '', '',
    '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00',
    '0000-00-00 00:00:00', '00:00:00', '0:0:0', '0:0:0', '[]', NULL""",
    """4, 1, 1, 1999, 1, 1, -1, 1, 1, 1, 1, -0.01, -0.0000000001, 7, -0.5, -1.5e20, 1e22, b'1', b'11', '  sp', 'x', 'x',
    'x', '    ', 'x', 'x', 'x', 'a', 'y', '1000-01-01', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999',
    '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '2038-01-19 03:14:07.99', '838:59:59', '-12:00:00.1',
    '-12:34:56.789012', '"s"', NULL""",
)
FIRST_ROW: Final = {
    "id": 1, "i1": -128, "u1": 255, "y": 2024, "i2": -32768, "u2": 65535, "i3": -8388608, "u3": 16777215,
    "u4": 4294967295, "i8": -9223372036854775808, "u8": 18446744073709551615, "d1": "-12345678.90",
    "d2": "12345678901234567890.0123456789", "d3": "99999", "d4": "0.00000000000000000001", "f": 3.14, "g": 2.5e-10,
    "b1": 1, "b9": 257, "c": "abc", "v": 'quo"te ü 😀', "vl": "ü€", "vu": "ü😀", "bi": "YQAAAA==", "vb": "AP8K",
    "t": "text\n", "bl": "YmxvYg==", "e": "ü", "s": "x,z", "da": "2024-02-29", "dt": "2024-02-29T12:00:00",
    "dt3": "2024-02-29T12:00:00.120", "dt6": "2024-02-29T12:00:00.000001", "ts": "2024-02-29T09:00:00Z",
    "ts2": "2024-02-29T09:00:00.10Z", "ti": "-838:59:59", "ti1": "-00:00:01.5", "ti6": "12:34:56.000007",
    "p": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA==", "st": 2, "vi": 2,
}  # fmt: skip
"""Without the JSON value; decimals are texts here, since floats would not show all digits."""
