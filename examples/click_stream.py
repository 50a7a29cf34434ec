"""Click stream: clicks enriched with changing user profiles, and with what the user searched just before.

python -m examples.click_stream          runs it on generated visits
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, join_window


class Profile(msgspec.Struct):
    """A row of the user table, as captured from a database."""

    name: str
    city: str


class Search(msgspec.Struct):
    """A search by a user."""

    text: str


class Click(msgspec.Struct):
    """A click by a user."""

    page: str


class Activity(msgspec.Struct):
    """A click, enriched with profile and search."""

    page: str
    user: str
    city: str
    searched: str | None = None


def with_profile(click: Click, profile: Profile | None) -> Activity:
    """Add the user's profile; a user without a profile is a guest."""
    return Activity(click.page, "guest", "?") if profile is None else Activity(click.page, profile.name, profile.city)


def with_search(activity: Activity, search: Search | None) -> Activity:
    """Add the search of the second before, if any."""
    return activity if search is None else msgspec.structs.replace(activity, searched=search.text)


app = App("click-stream")
profiles = app.table("user-profiles", key=str, value=Profile)
searches = app.stream("searches", key=str, value=Search)
clicks = app.stream("clicks", key=str, value=Click)

just_before = join_window(before="1 s", after="0 s", grace="500 ms")
activity = clicks.left_join(profiles, with_profile, value=Activity).left_join(
    searches, with_search, within=just_before, value=Activity, name="enriched"
)
activity.to("activity")
activity.group_by(lambda activity: activity.city).count(name="clicks_per_city")
activity.group_by(lambda activity: activity.searched).count(
    name="clicks_after_search"
)  # records with the key None are dropped

_CITIES = ("Oslo", "Rome", "Lima", "Kyiv")
_WORDS = ("boots", "lamp", "kettle", "scarf")


def data(seed: int = 7, visits: int = 600) -> Iterator[Input]:
    """Yield profiles with occasional changes, searches, and clicks, half of which follow a search; some are late."""
    rng = random.Random(seed)
    for user in range(40):
        yield Input("user-profiles", f"u{user}", Profile(f"User {user}", rng.choice(_CITIES)), 0)
    clock = 1_000
    for _ in range(visits):
        clock += rng.randrange(50, 400)
        visitor, word = f"u{rng.randrange(45)}", rng.choice(_WORDS)
        if rng.random() < 0.5:
            yield Input("searches", visitor, Search(word), clock)
        yield Input("clicks", visitor, Click(f"/{word}"), clock + rng.choice((300, 700, 1_500)))
        if rng.random() < 0.02:
            yield Input("user-profiles", visitor, Profile(f"User {visitor[1:]}", rng.choice(_CITIES)), clock)


def show(app: App) -> None:
    """Print clicks per city, clicks per search, and some of the enriched clicks."""
    for title in ("clicks_per_city", "clicks_after_search"):
        counts = "  ".join(f"{key} {count}" for key, count in sorted(app.tables[title].items()))
        print(f"\n{title.replace('_', ' ')}: {counts}")
    print("\nsome enriched clicks")
    with app.consumer(topics=["activity"], auto_offset_reset="earliest", value=Activity) as consumer:
        for record in consumer.poll("1 s")[:5]:
            click = record.value
            print(f"  {click.user:<8} in {click.city:<5} {click.page:<8} after {click.searched or 'no search'}")


if __name__ == "__main__":
    run_example(app, data(), show)
