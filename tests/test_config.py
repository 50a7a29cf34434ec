from pathlib import Path

import msgspec
import pytest

from millstream import Config
from millstream.errors import DefinitionError

PAGE = Path(__file__).parents[1] / "docs" / "running.md"


def test_every_setting_is_documented() -> None:
    page = PAGE.read_text()
    missing = [field.name for field in msgspec.structs.fields(Config) if f"| `{field.name}` |" not in page]
    assert missing == []


@pytest.mark.parametrize(
    "setting",
    [
        {"partitions": 0},
        {"max_batch_records": 0},
        {"target_batch": "0 s"},
        {"target_batch": "soon"},
        {"on_error": "ignore"},
    ],
)
def test_invalid_settings_are_rejected(setting: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        Config(**setting)  # type: ignore[arg-type]


def test_secrets_of_spark_are_not_printed() -> None:
    config = Config(partitions=3, spark={"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.driver.memory": "2g"})
    assert "hunter2" not in repr(config)
    assert "partitions=3" in repr(config)
    assert "'spark.driver.memory': '2g'" in repr(config)
