"""How many messages per second the sources of files, HTTP and RabbitMQ store in a synced log.

Messages of about 80 bytes wait before ``millstream connect run --until caught-up`` starts; the time of the same command
without messages is subtracted. Webhooks are not kept by their sender: 16 posts are in flight while the source runs,
each answered after a commit. Servers run on this host if their packages can be downloaded, as in the tests. The times
include the server's work, the CPU time is that of the source's process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.processes import cpu_seconds
from tests.connectors.message_source_kills import ConnectProcess
from tests.connectors.sending_systems import SERVERS, SendingSystem, message, sending_system
from tests.servers.debian import NoServerError

MESSAGES = {"files": 500_000, "webhooks": 5_000, "polling": 20_000, "rabbitmq": 50_000}
"""As many as take some seconds. A backlog at Mosquitto, or at the SQS server of the tests, measures these servers."""
WARM_UP = 100


def main() -> None:
    """Measure the chosen sources, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(MESSAGES), nargs="+", default=tuple(MESSAGES))
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name in options.only:
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            try:
                server = SERVERS[name](directory / "server") if name in SERVERS else None
                if server is not None:
                    server.start()
                    stack.callback(server.stop)
            except NoServerError as reason:
                print(f"{name}: not measured: {reason}")
                continue
            system = stack.enter_context(sending_system(name, directory / name, server))
            measure = _webhooks if name == "webhooks" else _backlog
            seconds, cpu = measure(directory, name, system)
            count = MESSAGES[name]
            print(f"{name:12} {count / seconds:10,.0f} messages/s {count / cpu:10,.0f} per CPU second", flush=True)


def _backlog(directory: Path, name: str, system: SendingSystem) -> tuple[float, float]:
    """Return the time and the CPU time that a source needs for messages that wait."""
    process = ConnectProcess(directory, name, {name: system}, None, durability="sync")
    _catch_up(process)
    for number in range(MESSAGES[name]):
        system.send(number, message(number))
    seconds, cpu = _catch_up(process)
    with closing(process.open()) as log:
        stored = sum(part.end for part in log.offsets(process.topics[name]))
    assert stored == MESSAGES[name], f"{stored} messages are stored"
    without_messages = _catch_up(process)
    return seconds - without_messages[0], cpu - without_messages[1]


def _catch_up(process: ConnectProcess) -> tuple[float, float]:
    began = time.perf_counter()
    _, status, usage = os.wait4(process.start("--until", "caught-up").pid, 0)
    assert status == 0, f"the source ended with {status}"
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def _webhooks(directory: Path, name: str, system: SendingSystem) -> tuple[float, float]:
    """Return the time and the CPU time that a source needs for posts, of which 16 are in flight."""
    system.settings["max_per_second"] = 1e6
    connect = ConnectProcess(directory, name, {name: system}, None, durability="sync")
    process = connect.start()
    try:
        for number in range(-WARM_UP, 0):
            system.send(number, message(number))
        began, cpu = time.perf_counter(), cpu_seconds([process.pid])
        for number in range(MESSAGES[name]):
            system.send(number, message(number))
        return time.perf_counter() - began, cpu_seconds([process.pid]) - cpu
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
