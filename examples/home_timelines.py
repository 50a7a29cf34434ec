"""Home timelines: what the people you follow have written, kept up to date, so that reading it is one look-up.

python -m examples.home_timelines        runs it on made-up people
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from examples.playing import Sent, play
from millstream import App

_KEPT_PER_AUTHOR = 20


class Tweet(msgspec.Struct):
    """A row of the table of tweets, by the tweet's id; deleting one is a tombstone."""

    author: str
    text: str
    at: int


class Follow(msgspec.Struct):
    """A row of the table of follows, by ``follower>author``; to unfollow is a tombstone."""

    follower: str
    author: str


def newest_first(tweets: list[Tweet]) -> list[Tweet]:
    """Sort tweets for reading."""
    return sorted(tweets, key=lambda tweet: (-tweet.at, tweet.author, tweet.text))


def added(tweets: list[Tweet], more: list[Tweet]) -> list[Tweet]:
    """Return a timeline with an author's tweets in it."""
    return newest_first([*tweets, *more])


def removed(tweets: list[Tweet], fewer: list[Tweet]) -> list[Tweet]:
    """Return a timeline without what an author had in it before."""
    gone = list(fewer)
    rest: list[Tweet] = []
    for tweet in tweets:
        if tweet in gone:
            gone.remove(tweet)
        else:
            rest.append(tweet)
    return rest


app = App("home-timelines")
tweets = app.table("tweets", key=str, value=Tweet)
follows = app.table("follows", key=str, value=Follow, name="follows")

by_author = (
    tweets.group_by(lambda tweet: tweet.author, values=lambda tweet: [tweet])
    .aggregate(list, added, removed, value=list[Tweet], name="by_author")
    .map_values(lambda tweets: tweets[:_KEPT_PER_AUTHOR], value=list[Tweet])
)


class Feed(msgspec.Struct):
    """What one author adds to one follower's timeline."""

    follower: str
    tweets: list[Tweet]


feeds = follows.join(
    by_author, lambda follow, tweets: Feed(follow.follower, tweets), on=lambda follow: follow.author, value=Feed
)
feeds.group_by(lambda feed: feed.follower, values=lambda feed: feed.tweets).aggregate(
    list, added, removed, value=list[Tweet], name="timelines"
)

_PEOPLE = ("ada", "bob", "cleo", "dan", "eve", "finn")
_THINGS = ("windows", "joins", "late records", "a log", "stream time", "tombstones")


def data(seed: int = 7, events: int = 400) -> Iterator[Sent]:
    """Yield follows and tweets; somebody unfollows or deletes a tweet, and some tweets come a minute late."""
    pick = random.Random(seed)
    alive: list[str] = []
    for number in range(events):
        clock, who = number * 1_000, pick.choice(_PEOPLE)
        dice = pick.random()
        if dice < 0.25:
            whom: Any = pick.choice([one for one in _PEOPLE if one != who])
            follow = None if pick.random() < 0.2 else Follow(who, whom)
            yield Sent("follows", f"{who}>{whom}", follow, clock)
        elif dice < 0.35 and alive:
            yield Sent("tweets", alive.pop(pick.randrange(len(alive))), None, clock)
        else:
            alive.append(f"t{number}")
            written = max(0, clock - (60_000 if pick.random() < 0.1 else 0))  # a telephone that had no connection
            yield Sent("tweets", alive[-1], Tweet(who, f"thinking about {pick.choice(_THINGS)}", written), written)


def show(app: App) -> None:
    """Read two timelines, each with one look-up."""
    for person in ("ada", "eve"):
        followed = sorted(follow.author for _, follow in app.tables["follows"].items() if follow.follower == person)
        timeline = app.tables["timelines"].get(person, [])
        print(f"\n{person} follows {', '.join(followed)}; the home timeline has {len(timeline)} tweets")
        for tweet in timeline[:5]:
            print(f"  {tweet.at // 1000:>4} s  {tweet.author:<5} {tweet.text}")


if __name__ == "__main__":
    play(app, data(), show)
