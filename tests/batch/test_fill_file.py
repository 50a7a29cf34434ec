from pathlib import Path

import pytest

from millstream.batch.fill import stored_fill
from millstream.errors import DamagedError
from millstream.foundation.paths import fill_dir


def test_a_damaged_description_of_a_fill_is_named(tmp_path: Path) -> None:
    assert stored_fill(tmp_path, "shop") is None
    path = fill_dir(tmp_path, "shop") / "fill.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"plan"')
    with pytest.raises(DamagedError, match=r"fill\.json' is damaged: it cannot be decoded"):
        stored_fill(tmp_path, "shop")
