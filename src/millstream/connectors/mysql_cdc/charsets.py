"""Character sets of the server, and how Python decodes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from millstream.connectors.mysql_cdc.connection import MysqlSession
from millstream.errors import ConnectorError

ToUtf8: TypeAlias = Callable[[bytes], bytes]
BINARY: Final = 63
"""The collation of bytes."""

_CODECS = {
    "ascii": "ascii", "armscii8": None, "big5": "big5", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256",
    "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932", "eucjpms": "euc_jp",
    "euckr": "euc_kr", "gb18030": "gb18030", "gb2312": "gb2312", "gbk": "gbk", "greek": "iso8859_7",
    "hebrew": "iso8859_8", "koi8r": "koi8_r", "koi8u": "koi8_u", "latin2": "iso8859_2", "latin5": "iso8859_9",
    "latin7": "iso8859_13", "macce": "mac_latin2", "macroman": "mac_roman", "sjis": "shift_jis", "tis620": "tis_620",
    "ucs2": "utf_16_be", "ujis": "euc_jp", "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be",
}  # fmt: skip
_WINDOWS = {code: bytes([code]).decode("cp1252") for code in range(128, 160) if code not in (129, 141, 143, 144, 157)}


class Charsets:
    """The character sets by the numbers of their collations."""

    def __init__(self, statements: MysqlSession) -> None:
        has_ids = statements.rows(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = 'information_schema' "
            "AND table_name = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND column_name = 'ID'"
        )
        view = "COLLATION_CHARACTER_SET_APPLICABILITY" if has_ids else "COLLATIONS"
        rows = statements.named_rows(
            f"SELECT id AS id, character_set_name AS name FROM information_schema.{view} WHERE id IS NOT NULL"
        )
        self._names = {int(row["id"]): row["name"] for row in rows}

    def to_utf8(self, collation: int) -> ToUtf8 | None:
        """Return what turns texts into UTF-8; None if they are that already."""
        name = self._names.get(collation, "")
        if name.startswith("utf8"):
            return None
        if name == "latin1":  # that of Windows, whose five missing characters are control characters
            return lambda data: data.decode("latin_1").translate(_WINDOWS).encode()
        codec = _CODECS.get(name)
        if codec is None:
            raise ConnectorError(
                f"character set {name or collation!r} cannot be read", hint="convert the column to utf8mb4"
            )
        return lambda data: data.decode(codec).encode()
