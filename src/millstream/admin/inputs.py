"""Bind an app's positions to what they refer to: the cluster, and the topics by their ids.

An offset means nothing on another cluster, nor in a topic that was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Collection

from millstream.batch.journal import Inputs, Journal
from millstream.broker import Broker
from millstream.errors import StateError


def check_cluster(app: str, journal: Journal, broker: Broker) -> None:
    """Refuse a broker other than the one that the app has run on; nothing is read or created before."""
    known, cluster = journal.inputs(), broker.cluster_id()
    if known is not None and known.cluster != cluster:
        raise StateError(
            f"app {app!r} has state and positions of {known.url!r} (cluster {known.cluster!r}), "
            f"but its broker is now {broker.url!r} (cluster {cluster!r})",
            hint=f"start it with broker={known.url!r} to continue, or with another data_dir or app id to start "
            "from the beginning on the new broker",
            cluster=cluster,
            expected=known.cluster,
        )


def bind_inputs(app: str, journal: Journal, broker: Broker, topics: Collection[str]) -> None:
    """Refuse topics that were deleted and created again after the app had read them; remember the ids of the others."""
    known = journal.inputs()
    before = {} if known is None else known.topics
    ids = {topic: broker.topic(topic).id for topic in topics}
    progress, _ = journal.read()
    read = {name.rpartition("/")[0] for name in progress.positions}
    for topic, topic_id in ids.items():
        if topic in read and before.get(topic, topic_id) != topic_id:
            raise StateError(
                f"topic {topic!r} was deleted and created again after app {app!r} had read it",
                hint=f"start over with the new records: millstream reset {app}; or run under another app id",
                topic=topic,
            )
    journal.remember_inputs(Inputs(cluster=broker.cluster_id(), url=broker.url, topics={**before, **ids}))
