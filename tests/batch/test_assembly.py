from pathlib import Path

from tests.assembling import assemble

from millstream import App
from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog


def test_the_jobs_of_a_worker_share_the_pauses_between_measured_batches(tmp_path: Path) -> None:
    """Each job has its own environment; a backlog in short jobs would never be measured if each had its own pauses."""
    apps = [App(name, data_dir=tmp_path) for name in ("counts", "other")]
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("numbers", TopicConfig(partitions=1))
        for app in apps:
            app.stream("numbers", value=int).group_by_key().count(name="counts")
        first, second, other = (assemble(app, log).environment().sampling for app in (apps[0], apps[0], apps[1]))
    assert first is second
    assert other is not first
