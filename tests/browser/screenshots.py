"""Take the screenshots of the documentation while the demo runs, into docs/img: ./dev screenshots."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait
from tests.browser.conftest import new_browser, picture, resize

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "img"
SIZES = {"desk": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}
PAGES = {
    "overview": ("/", ("desk", "phone")),
    "topology": ("/topology?app=taxi-rides", ("desk", "phone")),
    "history": ("/history?app=taxi-rides", ("desk", "tablet")),
    "records": ("/topics/clicks", ("desk",)),
    "time": ("/time?app=taxi-rides", ("tablet",)),
    "letters": ("/dead-letters?app=taxi-rides", ("desk",)),
}
"""The path of each page, and the sizes in which the documentation shows it."""
_READY_SECONDS = 900
_MINUTES = 8  # of history


def is_ready(url: str, token: str) -> bool:
    """Whether every page has content."""
    apps = _get(f"{url}/api/apps", token)
    if len(apps) < 3 or not all(sum(app[what] for app in apps) > 0 for what in ("late", "dead_letters")):
        return False
    return all(len(_get(f"{url}/api/apps/{app['app']}/history", token)) >= _MINUTES for app in apps)


def _get(url: str, token: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})) as answer:
        return json.load(answer)


def shoot(driver: WebDriver, url: str, into: Path) -> None:
    """Take all screenshots; those of the tablet use the dark theme."""
    for size, (width, height) in SIZES.items():
        resize(driver, width, height)
        scheme = "dark" if size == "tablet" else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for name, (path, sizes) in PAGES.items():
            if size not in sizes:
                continue
            driver.get(f"{url}{path}")
            is_live = "return document.getElementById('live-state')?.dataset.state === 'live'"
            WebDriverWait(driver, 60).until(lambda browser, script=is_live: browser.execute_script(script))  # type: ignore[misc]
            if name == "topology":
                choose = "document.querySelector('[data-detail=\"node-trips_per_minute\"]')"
                driver.execute_script(f"{choose}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
                WebDriverWait(driver, 60).until(
                    lambda browser: browser.execute_script("return !!document.querySelector('.samples p')")
                )
            picture(driver, into / f"{name}-{size}.webp", tallest=height * 5 // 4)


def main() -> None:
    """Run the demo, wait until every page has content, and take the screenshots."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data_dir:
        arguments = ["-m", "examples.demo", "--data-dir", data_dir, "--seconds", "3600", "--rate", "120"]
        demo = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0
        )
        try:
            assert demo.stdout is not None
            link = next(line.split()[-1] for line in demo.stdout if line.startswith("dashboard: "))
            url, token = link.partition("/login")[0], (Path(data_dir) / "web-token").read_text().strip()
            until = time.monotonic() + _READY_SECONDS
            while not is_ready(url, token) and time.monotonic() < until:
                demo.stdout.readline()  # a line comes every few seconds
            driver = new_browser(*SIZES["desk"])
            try:
                driver.get(link)
                shoot(driver, url, IMAGES)
            finally:
                driver.quit()
        finally:
            os.killpg(demo.pid, signal.SIGINT)
            demo.communicate(timeout=180)
    sys.stdout.write(f"{len(list(IMAGES.glob('*.webp')))} pictures are in {IMAGES}\n")


if __name__ == "__main__":
    main()
