"""Write the README's pictures, docs/screenshots/*.png, from a running service.

    python docs/screenshots.py [http://127.0.0.1:8000]

It makes the short URL "spring" there, unless that key is taken, and follows it a few times.
"""

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parent / "screenshots"
KEY = "spring"
TARGET_URL = "https://example.com/catalogue/2026/spring?from=newsletter"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1200, "height": 760}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 760}, "device_scale_factor": 2}


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service", nargs="?", default="http://127.0.0.1:8000")
    service = parser.parse_args().service.rstrip("/")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        # Without a sandbox, because root has none; it opens nothing but the service.
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(**DESKTOP)
        page.goto(service)
        take(page, "index")
        make(page, service)
        take(page, "created")
        phone(browser, service, "phone-light", "light")
        phone(browser, service, "phone-dark", "dark")
        browser.close()


def make(page: Page, service: str) -> None:
    """Go to the page of the short URL, which is made at the first run, with some hits."""
    page.get_by_label("Target URL").fill(TARGET_URL)
    page.get_by_label("Custom key").fill(KEY)
    page.get_by_role("button", name="Shorten").click()
    for _ in range(3):
        page.request.get(f"{service}/{KEY}", max_redirects=0)
    page.goto(f"{service}/{KEY}/stats")


def phone(browser: Browser, service: str, name: str, colours: Any) -> None:
    """Take a picture of the short URL's page on a phone."""
    page = browser.new_page(color_scheme=colours, **PHONE)
    page.goto(f"{service}/{KEY}/stats")
    take(page, name)
    page.close()


def take(page: Page, name: str) -> None:
    """Write one picture and say so."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
