from pathlib import Path

import msgspec

from millstream.cli.config_reference import markdown
from millstream.config import Config

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m millstream.cli.config_reference > docs/configuration.md"


def test_every_setting_is_explained() -> None:
    for field in msgspec.structs.fields(Config):
        assert f"| `{field.name}` |" in markdown()
