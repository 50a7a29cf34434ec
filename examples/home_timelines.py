"""Home timelines: the tweets of everyone you follow, kept up to date, so that reading them is a single lookup.

python -m examples.home_timelines        runs it on generated tweets
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from examples.harness import Input, run_example
from millstream import App

_TWEETS_PER_AUTHOR = 20


class Tweet(msgspec.Struct):
    """A row of the table of tweets; the key is the tweet's id, and a tombstone deletes the tweet."""

    author: str
    text: str
    at: int


class Follow(msgspec.Struct):
    """A row of the table of follows; the key is ``follower>author``, and a tombstone means unfollow."""

    follower: str
    author: str


def newest_first(tweets: list[Tweet]) -> list[Tweet]:
    """Sort tweets by time, the newest first."""
    return sorted(tweets, key=lambda tweet: (-tweet.at, tweet.author, tweet.text))


def added(timeline: list[Tweet], tweets: list[Tweet]) -> list[Tweet]:
    """Return the timeline with an author's tweets added."""
    return newest_first([*timeline, *tweets])


def removed(timeline: list[Tweet], tweets: list[Tweet]) -> list[Tweet]:
    """Return the timeline with an author's previous tweets removed."""
    to_remove = list(tweets)
    remaining: list[Tweet] = []
    for tweet in timeline:
        if tweet in to_remove:
            to_remove.remove(tweet)
        else:
            remaining.append(tweet)
    return remaining


app = App("home-timelines")
tweets = app.table("tweets", key=str, value=Tweet)
follows = app.table("follows", key=str, value=Follow, name="follows")

by_author = (
    tweets.group_by(lambda tweet: tweet.author, values=lambda tweet: [tweet])
    .aggregate(list, added, removed, value=list[Tweet], name="by_author")
    .map_values(lambda tweets: tweets[:_TWEETS_PER_AUTHOR], value=list[Tweet])
)


class Feed(msgspec.Struct):
    """The tweets that an author contributes to a follower's timeline."""

    follower: str
    tweets: list[Tweet]


feeds = follows.join(
    by_author, lambda follow, tweets: Feed(follow.follower, tweets), on=lambda follow: follow.author, value=Feed
)
feeds.group_by(lambda feed: feed.follower, values=lambda feed: feed.tweets).aggregate(
    list, added, removed, value=list[Tweet], name="timelines"
)

_PEOPLE = ("ada", "bob", "cleo", "dan", "eve", "finn")
_SUBJECTS = ("windows", "joins", "late records", "a log", "stream time", "tombstones")


def data(seed: int = 7, events: int = 400) -> Iterator[Input]:
    """Yield follows and tweets; some are undone by unfollowing or deleting, and some tweets are a minute late."""
    rng = random.Random(seed)
    tweet_ids: list[str] = []
    for number in range(events):
        clock, person = number * 1_000, rng.choice(_PEOPLE)
        chance = rng.random()
        if chance < 0.25:
            author: Any = rng.choice([other for other in _PEOPLE if other != person])
            follow = None if rng.random() < 0.2 else Follow(person, author)
            yield Input("follows", f"{person}>{author}", follow, clock)
        elif chance < 0.35 and tweet_ids:
            yield Input("tweets", tweet_ids.pop(rng.randrange(len(tweet_ids))), None, clock)
        else:
            tweet_ids.append(f"t{number}")
            written_at = max(0, clock - (60_000 if rng.random() < 0.1 else 0))  # a phone that was offline
            yield Input(
                "tweets",
                tweet_ids[-1],
                Tweet(person, f"thinking about {rng.choice(_SUBJECTS)}", written_at),
                written_at,
            )


def show(app: App) -> None:
    """Read two timelines, each with a single lookup."""
    for person in ("ada", "eve"):
        followed = sorted(follow.author for _, follow in app.tables["follows"].items() if follow.follower == person)
        timeline = app.tables["timelines"].get(person, [])
        print(f"\n{person} follows {', '.join(followed)}; the home timeline has {len(timeline)} tweets")
        for tweet in timeline[:5]:
            print(f"  {tweet.at // 1000:>4} s  {tweet.author:<5} {tweet.text}")


if __name__ == "__main__":
    run_example(app, data(), show)
