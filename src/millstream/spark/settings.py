"""The settings of the Spark session: our defaults, overridden by spark-submit or Spark's own file, and by the app.

The JVM of the driver only schedules, so it uses the fast compiler and the serial garbage collector. Workers talk to it
over Unix sockets, which saves about 40 ms per hop.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

from millstream.config import SECRET_SETTING, is_secret_setting
from millstream.errors import DefinitionError
from millstream.secret import Secret, revealed
from millstream.spark.class_archive import archive_options

MASTER_VARIABLE = "MILLSTREAM_MASTER"
_ONE_HOST = "local[*]"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true")
_DRIVER_OPTIONS = ("-Xms32m", "-XX:-UsePerfData")
"""The heap of the driver begins small and grows if it must: by default it begins with a 64th of all memory, and most of
that is used before the first collection. Counters for other programs would wake the JVM twenty times a second."""
_DEFAULTS = {
    "spark.app.name": "millstream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "millstream.spark.daemon",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.locality.wait": "1s",  # for hosts that have the state; on one host there is nothing to wait for
    "spark.shuffle.reduceLocality.enabled": "false",  # the location of state decides, see level_jobs.py
    "spark.redaction.regex": SECRET_SETTING.pattern,
}
_CLUSTER_DEFAULTS = {
    "spark.executor.extraJavaOptions": " ".join(_JVM_OPTIONS),
    # Spark notices after two to three minutes that a host does not respond, and executors stay for ten minutes without
    # their driver; batches wait for the one, and a new driver for the cores of the other
    "spark.executor.heartbeatInterval": "5s",
    "spark.executor.heartbeat.maxFailures": "6",
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "5s",
    # what cannot be fetched is sent again by its task, from its state
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
_OWN_SECRET = ("k8s://", "yarn")
"""With these masters Spark makes a secret for each app, as on one host; others need one that all hosts share."""
_STANDALONE = re.compile(r"spark://([^:,/]+|\[[^]]+\]):(\d+)")


def is_local(master: str) -> bool:
    """Whether Spark runs everything in the JVM of the driver."""
    return master == "local" or master.startswith("local[")


def master_of(configured: str | None) -> str:
    """Return the Spark master: of the app, the environment, spark-submit or Spark's own file, else this host."""
    return configured or os.environ.get(MASTER_VARIABLE) or submitted_settings().get("spark.master") or _ONE_HOST


def session_settings(master: str, given: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return all settings of a session; secrets are read now."""
    return {
        **_DEFAULTS,
        **({} if is_local(master) else _CLUSTER_DEFAULTS),
        **({"spark.authenticate": "true"} if is_local(master) or master.startswith(_OWN_SECRET) else {}),
        **_driver_address(master),
        "spark.driver.extraJavaOptions": " ".join((*_JVM_OPTIONS, *_DRIVER_OPTIONS, *archive_options())),
        "spark.pyspark.python": sys.executable,
        **submitted_settings(),
        **revealed(given),
        "spark.master": master,
    }


def open_ports(settings: Mapping[str, str]) -> str | None:
    """Return why others could run code through Spark's ports; None if they are asked for a secret."""
    if settings.get("spark.authenticate", "").lower() == "true":
        return None
    return (
        f"anyone who reaches the ports of Spark on {settings['spark.master']} can run code as its user; set "
        "spark.authenticate and spark.authenticate.secret on all hosts and in Config(spark=...)"
    )


def public_settings(settings: Mapping[str, str], given: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return the settings that other users of this host may see, as they see the arguments of the JVM."""
    return {
        name: value
        for name, value in settings.items()
        if not is_secret_setting(name) and not isinstance(given.get(name), Secret)
    }


def submitted_settings() -> dict[str, str]:
    """Return the settings that spark-submit was given, or those of Spark's own file."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM, and has read the file
        SparkContext._ensure_initialized()
        return dict(SparkConf(loadDefaults=True).getAll())
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    directory = os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf"
    file = Path(directory) / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (re.split(r"\s*[=\s]\s*", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _driver_address(master: str) -> dict[str, str]:
    """Return the address at which executors reach this driver; YARN and Kubernetes find it themselves."""
    if master.startswith("local"):
        return _LOOPBACK
    match = _STANDALONE.match(master)
    if match is None:
        return {}
    host, port = match[1].strip("[]"), int(match[2])
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing, but chooses the address of this host that the master can reach
            own = str(probe.getsockname()[0])
    except OSError as error:
        raise DefinitionError(
            f"the Spark master {master!r} cannot be reached: {error}", hint="check the name and the network"
        ) from error
    return {"spark.driver.host": own, "spark.driver.bindAddress": own}
