"""``millstream work``: run the workers of an app."""

from __future__ import annotations

import click

from millstream.cli.command import TARGET, Command
from millstream.cli.logs import log_to_stderr
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count
from millstream.queues.worker_pool import WorkUntil


@click.command(cls=Command, examples=["millstream work mail.py", "millstream work shop.mail:app --until idle"])
@click.argument(TARGET)
@click.option(
    "--until",
    type=click.Choice(["stopped", "idle"]),
    default="stopped",
    show_default=True,
    help="When to stop: on a signal, or when no job is left.",
)
@pass_settings
def work(settings: CommonOptions, /, until: WorkUntil, target: str | None = None) -> None:
    """Run the workers of an app in threads, without Spark.

    Any number of processes can run the same workers; each job goes to one of them. Missing topics are created. Ctrl-C
    or SIGTERM stops after the jobs that run, with exit code 0; a second Ctrl-C interrupts them, and they are delivered
    again. Failures of jobs are logged to standard error.
    """
    app = settings.load(target)
    log_to_stderr("text")
    for worker in app.workers:
        threads = format_count(worker.concurrency, "thread")
        show_message(f"{worker.group} takes jobs from {', '.join(worker.topics)} in {threads}")
    app.work(until)
