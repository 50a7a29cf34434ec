from pathlib import Path

from tests.cli.conftest import Call

from millstream.foundation.paths import journal_dir


def test_an_app_that_has_not_run_cannot_be_rescaled(call: Call, tmp_path: Path, data_dir: Path) -> None:
    file = tmp_path / "never_run.py"
    file.write_text('from millstream import App\napp = App("never")\napp.stream("a").to("b")\n')
    refused = call("rescale", str(file), "--partitions", "4", "--data-dir", str(data_dir))
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: app 'never' has not run")
    assert not journal_dir(data_dir, "never").exists()


def test_the_number_of_partitions_is_required(call: Call, tmp_path: Path) -> None:
    refused = call("rescale", str(tmp_path / "app.py"))
    assert refused.exit_code == 2
    assert "--partitions" in refused.stderr
