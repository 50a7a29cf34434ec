"""The company: the topology alone, and all of it on real servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.shop_company import Customer, Order, app

from millstream.testing import TestDriver

ROOT = Path(__file__).parents[2]
ANN = Customer("ann", "Ann", "ann@example.org", "Bern")


def test_every_system_gets_what_it_needs() -> None:
    with TestDriver(app) as driver:
        shop = driver.source("shop")
        shop.insert("customers", ANN, key="ann")
        shop.insert("orders", Order(1, "ann", "desk", 480.0), key=1)
        shop.insert("orders", Order(2, "ann", "sofa", 1_250.0), key=2)
        assert [(each.key, each.value) for each in driver.sink("warehouse").read()][-1] == ("Bern", 1_730.0)
        assert [(each.key, each.value) for each in driver.sink("cache").read()][-1] == ("ann", 1_730.0)
        assert [each.value["product"] for each in driver.sink("receipts").read()] == ["desk", "sofa"]
        assert [each.value["city"] for each in driver.sink("search").read()] == ["Bern", "Bern"]
        driver.advance_wall_clock("1 s")
        [notification] = driver.sink("team").read_values()
        assert [each.annotations["summary"] for each in notification.alerts] == ["Ann ordered sofa for 1250.0"]


def test_a_customer_who_moves_takes_their_revenue_along_and_gets_no_second_receipt() -> None:
    with TestDriver(app) as driver:
        shop = driver.source("shop")
        shop.insert("customers", ANN, key="ann")
        shop.insert("orders", Order(1, "ann", "desk", 480.0), key=1)
        shop.insert("customers", Customer("ann", "Ann", "ann@example.org", "Zug"), key="ann")
        revenue = [(each.key, each.value) for each in driver.sink("warehouse").read()]
        assert revenue == [("Bern", 480.0), ("Bern", None), ("Zug", 480.0)]
        assert len(driver.sink("receipts").read()) == 1


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_company_runs_on_real_servers() -> None:
    command = [sys.executable, "-m", "examples.shop_company", "--seconds", "5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=360)
    if "a server cannot be started" in run.stderr:
        pytest.skip(run.stderr.strip()[-300:])
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "everything has arrived, each order once" in run.stdout
