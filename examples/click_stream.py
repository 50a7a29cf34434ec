"""Click stream: clicks enriched with user profiles that change, and with what the user searched just before.

python -m examples.click_stream          runs it on made-up visitors
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, join_window


class Profile(msgspec.Struct):
    """A row of the user table, as captured from a database."""

    name: str
    city: str


class Search(msgspec.Struct):
    """What a user looked for."""

    text: str


class Click(msgspec.Struct):
    """What a user clicked on."""

    page: str


class Activity(msgspec.Struct):
    """A click with all that is known about it."""

    page: str
    user: str
    city: str
    searched: str | None = None


def with_profile(click: Click, profile: Profile | None) -> Activity:
    """Add who it was; a user without a row is a guest."""
    return Activity(click.page, "guest", "?") if profile is None else Activity(click.page, profile.name, profile.city)


def with_search(activity: Activity, search: Search | None) -> Activity:
    """Add what was searched within the second before."""
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
activity.group_by(lambda one: one.city).count(name="clicks_per_city")
activity.group_by(lambda one: one.searched).count(name="clicks_after_search")  # None is in no group

_CITIES = ("Oslo", "Rome", "Lima", "Kyiv")
_WORDS = ("boots", "lamp", "kettle", "scarf")


def data(seed: int = 7, visits: int = 600) -> Iterator[Sent]:
    """Yield profiles that change now and then, searches, and clicks of which half follow a search; some come late."""
    pick = random.Random(seed)
    for user in range(40):
        yield Sent("user-profiles", f"u{user}", Profile(f"User {user}", pick.choice(_CITIES)), 0)
    clock = 1_000
    for _ in range(visits):
        clock += pick.randrange(50, 400)
        visitor, word = f"u{pick.randrange(45)}", pick.choice(_WORDS)
        if pick.random() < 0.5:
            yield Sent("searches", visitor, Search(word), clock)
        yield Sent("clicks", visitor, Click(f"/{word}"), clock + pick.choice((300, 700, 1_500)))
        if pick.random() < 0.02:
            yield Sent("user-profiles", visitor, Profile(f"User {visitor[1:]}", pick.choice(_CITIES)), clock)


def show(app: App) -> None:
    """Print where clicks came from, what searches led to, and some of the enriched clicks."""
    for title in ("clicks_per_city", "clicks_after_search"):
        counts = "  ".join(f"{key} {count}" for key, count in sorted(app.tables[title].items()))
        print(f"\n{title.replace('_', ' ')}: {counts}")
    print("\nsome enriched clicks")
    with app.consumer(topics=["activity"], auto_offset_reset="earliest", value=Activity) as consumer:
        for record in consumer.poll("1 s")[:5]:
            one = record.value
            print(f"  {one.user:<8} in {one.city:<5} {one.page:<8} after {one.searched or 'no search'}")


if __name__ == "__main__":
    play(app, data(), show)
