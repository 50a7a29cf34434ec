"""The Spark session: one per process, shared by all its apps. On one host everything listens on loopback only."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from millstream.batch.app_spec import AppSettings
from millstream.config import Config
from millstream.errors import DefinitionError, EngineError
from millstream.foundation.open_files import raise_open_file_limit
from millstream.spark.datasource import FORMAT, register
from millstream.spark.java import check_java
from millstream.spark.quiet import silence_lost_connections, silence_py4j
from millstream.spark.settings import is_local, master_of, open_ports, public_settings, session_settings
from millstream.spark.stderr_filter import filtered_stderr

__all__ = [
    "DataFrame",
    "DataFrameReader",
    "SparkSession",
    "frames_of",
    "source_options",
    "spark_context",
    "spark_session",
]
# Spark's types are exported for modules that use them in annotations but must not import pyspark

_MIN_OPEN_FILES = 512
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_prepared: weakref.WeakSet[SparkContext] = weakref.WeakSet()


def spark_context(config: Config) -> SparkContext:
    """Return the Spark context of this process, which all apps share; starts Spark if it is not running."""
    with _lock:
        _forget_if_dead()
        context = SparkContext._active_spark_context
        if context is not None:
            check_same_cluster(config.master, context.master)
        if context is None or context not in _prepared:
            context = _prepare(config)
            _prepared.add(context)
        return context


def check_same_cluster(wanted: str | None, running: str | None) -> None:
    """Refuse an app whose cluster is not the one that this process uses; the number of local threads may differ."""
    if wanted is None or running is None or wanted == running or (is_local(wanted) and is_local(running)):
        return
    raise DefinitionError(
        f"the master of this app is {wanted!r}, but Spark already runs on {running!r} in this process",
        hint="run the apps in separate processes, or with the same master",
    )


@contextlib.contextmanager
def ending_interrupted_jvm() -> Iterator[None]:
    """End a JVM that is starting when an exception such as Ctrl-C ends the block.

    PySpark removes the directory in which the JVM is to write its port, and a JVM that cannot do that stays forever.
    Once it is connected, it ends with this process.
    """
    gateway: Any = java_gateway
    original: Any = gateway.Popen
    started: list[Any] = []

    def start(*arguments: Any, **settings: Any) -> Any:
        started.append(original(*arguments, **settings))
        return started[-1]

    gateway.Popen = start
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
                process.wait()
        raise
    finally:
        gateway.Popen = original


def _prepare(config: Config) -> SparkContext:
    """Start Spark, unless another program in this process has, and silence it."""
    master = master_of(config.master)
    settings = session_settings(master, config.spark)
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    _check_open_files()
    if problem := open_ports(settings):
        _log.warning("%s", problem)
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_java()
    public = public_settings(settings, config.spark)
    try:
        with filtered_stderr(), ending_interrupted_jvm():
            _import_while_java_starts()
            silence_py4j()
            # the JVM gets its settings as arguments, which `ps` shows; secrets follow over its socket
            SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=True).setAll(list(public.items())))
            conf = SparkConf(loadDefaults=True).setAll(list(settings.items()))
            context = SparkContext.getOrCreate(conf)
            context.setLogLevel("OFF")
            silence_lost_connections(context)
    except PySparkException as error:
        reason = re.sub(r"^\[\w+\] ", "", str(error).splitlines()[0]).rstrip(".")
        raise EngineError(
            f"Spark does not start: {reason}",
            hint="if no message above says why, check that `java -version` works and that memory is free",
        ) from error
    return context


def _import_while_java_starts() -> None:
    """Import what the first call of a Java object imports, NumPy and pandas among it, which takes up to half a second.

    This thread waits for Java meanwhile. A call that comes too early waits for the import.
    """
    threading.Thread(
        target=importlib.import_module, args=("pyspark.testing.utils",), name="millstream-imports", daemon=True
    ).start()


def _check_open_files() -> None:
    """Refuse a limit of open files with which the JVM fails in confusing ways."""
    limit = raise_open_file_limit()
    if limit < _MIN_OPEN_FILES:
        raise EngineError(
            f"Spark does not start: a process can open only {limit} files, and Spark needs {_MIN_OPEN_FILES}",
            hint="raise the limit, for example: ulimit -n 4096",
        )


def spark_session(config: Config) -> SparkSession:
    """Return the Spark session of this process, with the data source ``millstream`` registered."""
    spark = SparkSession(spark_context(config))
    register(spark)
    # Writers look up data sources in the active session of their thread, which may be a stopped one if another thread
    # has created the new session.
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    return spark


def frames_of(app: AppSettings) -> DataFrameReader:
    """Return a reader for the data directory and the broker of an app."""
    spark = spark_session(app.config)
    return spark.read.format(FORMAT).options(**source_options(app)).option("app", app.id)


def source_options(app: AppSettings) -> dict[str, str]:
    """Return the options that point the data source to the data of an app."""
    options = {"data_dir": str(app.data_dir), "durability": app.config.durability}
    return options if app.broker_url is None else {**options, "broker": app.broker_url}


def _forget_if_dead() -> None:
    """Forget a Spark that was stopped or whose JVM has died, so that a new one can be started."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None and _is_alive(context):
        return
    if context is not None:
        with contextlib.suppress(Exception):  # its JVM may be gone
            context.stop()
    if gateway is not None and not _responds(gateway):
        with contextlib.suppress(Exception):
            gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _is_alive(context: SparkContext) -> bool:
    try:
        return not context._jsc.sc().isStopped()
    except Exception:  # Py4J raises many kinds of errors when the JVM is gone
        return False


def _responds(gateway: Any) -> bool:
    try:
        return bool(gateway.jvm.System.nanoTime())
    except Exception:
        return False
