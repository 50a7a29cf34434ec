"""The command that prints what the kit says about a connector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.connectors.test_sink_kit import FileTarget

from millstream.testing.connectors import SINK_CASES
from millstream.testing.connectors.__main__ import report


class Forgetful(FileTarget):
    """Shows only a part of its rows."""

    def rows(self) -> list[tuple[Any, Any]]:
        return super().rows()[1:]


def test_a_report_has_a_line_for_each_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("files", FileTarget) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[41:65].strip() for line in lines] == list(SINK_CASES)
    assert {line[66:] for line in lines} == {"passed", "not applicable"}


def test_a_failed_case_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def make(directory: Path) -> Forgetful:
        return Forgetful(directory)

    assert report("files", make) > 0
    assert "FAILED: " in capsys.readouterr().out
