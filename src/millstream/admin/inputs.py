"""Bind the positions of an app to its cluster and to the ids of its topics.

An offset has no meaning on another cluster or in a topic that was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Collection

from millstream.batch.journal import Inputs, Journal
from millstream.broker import Broker
from millstream.errors import StateError
from millstream.foundation.names import check_app_on_kafka


def check_cluster(app: str, journal: Journal, broker: Broker) -> None:
    """Raise if the app has run on another broker; call this before anything is read or created."""
    if broker.url.startswith("kafka:"):
        check_app_on_kafka(app)
    stored, cluster = journal.inputs(), broker.cluster_id()
    if stored is not None and stored.cluster != cluster:
        raise StateError(
            f"app {app!r} has state and positions of {stored.url!r} (cluster {stored.cluster!r}), "
            f"but its broker is now {broker.url!r} (cluster {cluster!r})",
            hint=f"start it with broker={stored.url!r} to continue, or with another data_dir or app id to start "
            "from the beginning on the new broker",
            cluster=cluster,
            expected=stored.cluster,
        )


def bind_inputs(app: str, journal: Journal, broker: Broker, topics: Collection[str]) -> None:
    """Raise if a topic was deleted and created again after the app had read it; store the ids of the topics."""
    stored = journal.inputs()
    before = {} if stored is None else stored.topics
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
