import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from millstream.errors import DefinitionError
from millstream.secret import Secret
from millstream.spark.settings import is_local, master_of, open_ports, session_settings


@pytest.fixture(autouse=True)
def _no_settings_of_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MILLSTREAM_MASTER", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_the_master_is_that_of_the_app_then_of_the_environment_then_of_sparks_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert master_of(None) == "local[*]"
    (tmp_path / "spark-defaults.conf").write_text("# cluster\nspark.master   yarn\n\nspark.executor.memory=2g\n")
    assert master_of(None) == "yarn"
    monkeypatch.setenv("MILLSTREAM_MASTER", "spark://head:7077")
    assert master_of(None) == "spark://head:7077"
    assert master_of("local[1]") == "local[1]"


def test_sparks_file_overrides_our_defaults_and_the_app_overrides_both(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.locality.wait 9s\nspark.driver.memory 3g\n")
    settings = session_settings("local[*]", {"spark.driver.memory": "2g"})
    assert settings["spark.locality.wait"] == "9s"
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.shuffle.reduceLocality.enabled"] == "false"


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_on_one_host_spark_listens_on_loopback_only(master: str) -> None:
    settings = session_settings(master, {})
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert ("spark.authenticate" in settings) == is_local(master)


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://cluster"])
def test_spark_authenticates_where_it_makes_the_secret_itself(master: str, tmp_path: Path) -> None:
    settings = session_settings(master, {})
    assert settings["spark.authenticate"] == "true"
    assert open_ports(settings) is None
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate false\n")  # the choice of the cluster's operator
    assert open_ports(session_settings(master, {})) is not None


def test_ports_that_take_code_from_anyone_are_reported_unless_all_hosts_share_a_secret() -> None:
    given: dict[str, str | Secret] = {"spark.authenticate": "true", "spark.authenticate.secret": Secret.env("HOME")}
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        assert open_ports(session_settings(master, given)) is None
        problem = open_ports(session_settings(master, {}))
    assert problem is not None
    assert problem.startswith(f"anyone who reaches the ports of Spark on {master} can run code as its user; set")


def test_executors_of_a_standalone_cluster_get_the_address_at_which_they_reach_the_driver() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = session_settings(f"spark://localhost:{server.getsockname()[1]}", {})
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in session_settings("yarn", {})
    assert "spark.driver.host" not in session_settings("k8s://https://cluster", {})


def test_on_a_cluster_hosts_that_do_not_respond_are_noticed_sooner_than_by_default() -> None:
    assert session_settings("yarn", {})["spark.network.timeout"] == "30s"
    assert session_settings("yarn", {"spark.network.timeout": "60s"})["spark.network.timeout"] == "60s"
    assert "spark.network.timeout" not in session_settings("local[2]", {})


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_workers_are_forked_from_our_daemon_on_one_host_and_on_a_cluster(master: str) -> None:
    assert session_settings(master, {})["spark.python.daemon.module"] == "millstream.spark.daemon"


def test_a_master_whose_name_is_unknown_is_one_clear_error() -> None:
    with pytest.raises(DefinitionError, match=r"the Spark master 'spark://nowhere.invalid:7077' cannot be reached"):
        session_settings("spark://nowhere.invalid:7077", {})


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_the_settings_of_spark_submit_are_used(tmp_path: Path) -> None:
    script = tmp_path / "submitted.py"
    script.write_text(
        "from millstream import Config\n"
        "from millstream.spark.session import spark_context\n"
        "context = spark_context(Config())\n"
        "print('used', context.master, context.getConf().get('spark.locality.wait'))\n"
    )
    home = Path(pyspark.__file__).parent
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--master", "local[1]", "--conf", "spark.locality.wait=7s", script],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert "used local[1] 7s" in done.stdout, done.stderr[-2000:]


SECRETS = """
import subprocess
from pathlib import Path
from millstream import Config, Secret
from millstream.spark.session import spark_context
settings = {
    "spark.hadoop.fs.s3a.secret.key": "canary-key", "spark.authenticate.secret": Secret.env("CANARY"),
    "spark.hadoop.custom": Secret.env("CANARY"), "spark.locality.wait": "8s",
}
config = Config(master="local[1]", spark=settings)
assert "canary" not in repr(config), config
context = spark_context(config)
arguments = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
jvm = [line for line in arguments.splitlines() if "SparkSubmit" in line and "spark.locality.wait=8s" in line]
conf = context.getConf()
print(len(jvm), "canary" in arguments, conf.get("spark.hadoop.fs.s3a.secret.key"), conf.get("spark.hadoop.custom"))
print(context.parallelize([1, 2]).sum())
"""


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_secrets_reach_spark_but_neither_the_list_of_processes_nor_repr(tmp_path: Path) -> None:
    script = tmp_path / "secrets_of_spark.py"
    script.write_text(SECRETS)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "CANARY": "canary-value"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("1 False canary-key canary-value\n3\n"), done.stdout + done.stderr[-2000:]
