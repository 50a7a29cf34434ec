"""A real Chromium, driven by selenium, and a real server; skipped if Chromium is not installed."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait
from tests.cli.running import run_to_end
from tests.serve.conftest import filled, web_server, words_app

from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serve.server import WebServer

TIMEOUT_SECONDS = 60


def chromium() -> tuple[str, str] | None:
    """Return the browser and its driver, as Debian's packages chromium and chromium-driver install them."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def new_browser(width: int, height: int, *, dark: bool = False) -> WebDriver:
    """Start a browser with a window of a given size, which logs every error."""
    paths = chromium()
    assert paths is not None
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(paths[1]))
    resize(driver, width, height)
    if dark:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    return driver


def resize(driver: WebDriver, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def picture(driver: WebDriver, path: Path, tallest: int = 2000) -> None:
    """Save a screenshot of the complete page, in the format of the file extension."""
    width, height = driver.execute_script(
        "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, tallest), "scale": 1}
    options = {"format": path.suffix[1:], "quality": 65, "captureBeyondViewport": True, "clip": clip}
    if path.suffix == ".png":
        del options["quality"]
    screenshot = driver.execute_cdp_cmd("Page.captureScreenshot", options)
    path.write_bytes(base64.b64decode(screenshot["data"]))


@pytest.fixture(scope="session")
def driver() -> Iterator[WebDriver]:
    if chromium() is None:
        pytest.skip("there is no chromium with chromedriver; on Debian: apt-get install chromium chromium-driver")
    driver = new_browser(1280, 900)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Serve two apps that have run over hostile data."""
    with web_server(filled(tmp_path_factory)) as server:
        yield server


class Browser:
    """A browser and a server: opens pages, waits, and collects errors."""

    def __init__(self, driver: WebDriver, server: WebServer) -> None:
        self.driver = driver
        self.server = server
        self.expected: tuple[str, ...] = ()
        """Errors that are allowed."""

    def open(self, path: str) -> None:
        self.driver.get(f"{self.server.url}{path}")

    def until(self, description: str, condition: Callable[[], object]) -> None:
        WebDriverWait(self.driver, TIMEOUT_SECONDS, 0.1).until(lambda _: condition(), description)

    def text(self, selector: str = "main") -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def run(self, script: str, *arguments: object) -> object:
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        """Click on an element; if a live update replaces it meanwhile, on its replacement."""
        waiting = WebDriverWait(self.driver, TIMEOUT_SECONDS, 0.1, (StaleElementReferenceException,))
        waiting.until(lambda _: self._click(selector), f"{selector} can be clicked")

    def _click(self, selector: str) -> bool:
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.driver.find_element("css selector", selector).click()
        return True

    def type(self, selector: str, text: str) -> None:
        for _ in range(3):
            try:
                element = self.driver.find_element("css selector", selector)
                element.clear()
                element.send_keys(text)
                return
            except StaleElementReferenceException:
                continue  # the page has just replaced it
        raise AssertionError(f"{selector} is replaced again and again")

    def problems(self) -> list[str]:
        """Return the errors that the browser logged, including violations of the content security policy."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        messages = [str(entry["message"]) for entry in entries]
        return [message for message in messages if not any(expected in message for expected in self.expected)]

    def send(self, *lines: str) -> None:
        data_dir = self.server._directory.path
        with EmbeddedLog(data_dir) as log, Producer(log, value=str) as producer:
            for line in lines:
                producer.send("lines", line, key=line[:40])

    def process(self) -> None:
        """Run the words app until it has caught up."""
        run_to_end(words_app(self.server._directory.path))


@pytest.fixture
def browser(driver: WebDriver, server: WebServer) -> Iterator[Browser]:
    resize(driver, 1280, 900)
    browser = Browser(driver, server)
    browser.problems()
    yield browser
    if driver.current_url.startswith("http"):
        assert browser.problems() == []
    driver.get("about:blank")
