from itertools import islice
from pathlib import Path

import pytest
from examples.taxi_csv import make, read, send
from examples.taxi_rides import TaxiRide, app, generate_rides


def test_a_file_contains_the_generated_rides(tmp_path: Path) -> None:
    make(tmp_path / "rides.csv", 50)
    assert list(read(tmp_path / "rides.csv")) == list(islice(generate_rides(7), 50))


def test_rides_are_printed_and_sent_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "data_dir", tmp_path / "data")
    make(tmp_path / "rides.csv", 30)
    assert send(tmp_path / "rides.csv", rate=10_000) == 30
    assert capsys.readouterr().out.count("vendor") == 30
    with app.consumer(topics=["rides"], value=TaxiRide) as consumer:
        assert len(consumer.poll("2 s")) > 0
