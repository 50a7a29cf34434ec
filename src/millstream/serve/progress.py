"""How far everything is, in few numbers: what tells a page that it is time to look again."""

from __future__ import annotations

import msgspec

from millstream.errors import UnknownTopicError
from millstream.serve.site import Site


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The last batch of each app, and how many records were ever written to each topic."""

    apps: dict[str, int]
    topics: dict[str, int]


def progress_of(site: Site) -> Progress:
    """Return how far everything is now."""
    broker = site.place.broker
    topics: dict[str, int] = {}
    for name in broker.topic_names():
        try:
            topics[name] = sum(one.end for one in broker.offsets(name))
        except UnknownTopicError:  # deleted in this moment
            continue
    site.rates.note(topics)
    apps = {app: site.place.journal(app).read()[0].done for app in site.place.apps()}
    return Progress(apps=apps, topics=topics)
