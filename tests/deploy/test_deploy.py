"""The image, the compose file and the manifests, as linters and schemas see them; no container is started."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.33"


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    done = subprocess.run([tool("hadolint"), DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_the_image_copies_exist() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    missing = [name for names in copied for name in names.split() if not (ROOT / name).exists()]
    assert copied
    assert missing == []


def test_the_compose_file_follows_its_schema() -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("kubernetes/*.yaml")), ids=lambda file: file.name)
def test_manifests_follow_the_schema_of_kubernetes(file: Path) -> None:
    for document in documents(file):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_examples_that_are_deployed_exist() -> None:
    texts = [(DEPLOY / "compose.yaml").read_text(), (DEPLOY / "kubernetes" / "app.yaml").read_text()]
    examples = {name for text in texts for name in re.findall(r"examples/\w+\.py", text)}
    assert examples == {"examples/taxi_rides.py"}
    assert all((ROOT / name).is_file() for name in examples)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_entry_point_has_no_finding_of_shellcheck() -> None:
    done = subprocess.run(["shellcheck", DEPLOY / "entrypoint.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
