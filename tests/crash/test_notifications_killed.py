"""kill -9 at random times: every alert reaches the chat, and a kill repeats one message at most."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.servers.receiver import Receiver, receiver

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog
from millstream.producer import Producer

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("MILLSTREAM_TRIALS", "5"))
SECONDS = 90.0


@pytest.mark.crash
@pytest.mark.timeout(120 + 10 * KILLS)
def test_a_killed_process_loses_no_notification_and_repeats_one_at_most(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {KILLS} kills")
    rng = random.Random(seed)
    sent = 0
    with EmbeddedLog(tmp_path) as log, receiver() as chat:
        log.create_topic("heat", TopicConfig(partitions=2))
        for kill in range(KILLS + 1):
            with Producer(log, value=int) as producer:
                for _ in range(rng.randrange(3, 20)):
                    producer.send("heat", 95, key=f"s{sent}")
                    sent += 1
            _run_and_kill(tmp_path, chat, None if kill == KILLS else rng.uniform(0.0, 0.6), sent)
    messages = [json.loads(received.body) for received in chat.received]
    counts = Counter(message["text"] for message in messages)
    assert all(set(message) == {"text"} for message in messages), "what Slack and compatible chats take"
    assert set(counts) == {_text(number) for number in range(sent)}
    assert sum(counts.values()) - sent <= KILLS, f"a kill repeats one message at most: {counts.most_common(3)}"


def _text(number: int) -> str:
    """Return the message of an alert; its value is escaped, as Slack asks for."""
    return f"[FIRING:1] s{number}\nfiring: s{number} has &lt;95&gt; °C"


def _run_and_kill(directory: Path, chat: Receiver, seconds: float | None, sent: int) -> None:
    """Run, and kill after a time, or when all messages have come."""
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.notifying", str(directory)],
        cwd=ROOT,
        env={**os.environ, "CHAT_URL": chat.url},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "running\n"
        waiting = threading.Event()
        if seconds is not None:
            waiting.wait(seconds)
            return
        for _ in range(int(SECONDS / 0.05)):
            if len({received.body for received in chat.received}) >= sent:
                return
            waiting.wait(0.05)
    finally:
        victim.kill()
        victim.communicate()
