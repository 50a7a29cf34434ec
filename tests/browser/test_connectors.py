"""A sink in the dashboard: its failure is shown, and it is paused and resumed after a confirmation."""

from __future__ import annotations

import json
from pathlib import Path

from selenium.webdriver.common.alert import Alert
from selenium.webdriver.support.expected_conditions import alert_is_present
from tests.browser.conftest import Browser
from tests.serve.test_connectors import Shop


def test_a_sink_is_paused_after_a_confirmation_and_resumed(browser: Browser) -> None:
    data_dir: Path = browser.server._directory.path
    shop = Shop(data_dir)
    shop.run({"n": 1}, {"n": "text"})
    browser.open("/connectors")
    assert "exactly once" in browser.text("#connectors")
    browser.click("#connectors a[href='/connectors/shop/out']")
    browser.until("its page is open", lambda: "shop.orders/0" in browser.text("#positions"))
    assert "Rejected since the start\n1" in browser.text("#connector")
    browser.click("#actions form[data-action$='/pause'] button")
    browser.until("a confirmation is asked for", lambda: alert_is_present()(browser.driver))
    Alert(browser.driver).dismiss()
    control = data_dir / "connectors" / "shop" / "out.control.json"
    assert not control.exists()
    browser.click("#actions form[data-action$='/pause'] button")
    browser.until("a confirmation is asked for", lambda: alert_is_present()(browser.driver))
    Alert(browser.driver).accept()
    browser.until("it can be resumed", lambda: "Resume" in browser.text("#actions"))
    assert json.loads(control.read_text())["paused"] is True
    shop.run({"n": 2})
    assert shop.rows() == 1
    browser.until("it is paused", lambda: "paused" in browser.text("#connector"))
    browser.click("#actions form[data-action$='/resume'] button")
    browser.until("it can be paused", lambda: "Pause" in browser.text("#actions"))
    shop.run()
    assert shop.rows() == 2
