"""Tests of a group run in one process; without that, each process would start its own Spark and its own brokers."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.xdist_group("groups")


@pytest.mark.parametrize("number", range(4))
def test_tests_of_a_group_run_in_one_process(
    number: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not request.config.getoption("loadgroup", False):
        pytest.skip("the tests do not run in parallel")
    shared = tmp_path_factory.getbasetemp().parent / "process of a group"
    try:
        with shared.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        assert shared.read_text() == str(os.getpid())
