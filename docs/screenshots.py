"""Write the README's pictures, docs/screenshots/*.png, from a running service.

    python docs/screenshots.py [http://127.0.0.1:8000]

It makes the short URL "spring" there, unless that key is taken, and follows it a few times. Run
`manage.py demo` before, for a year of visits.
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
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
HALFWAY = "/lab/races/last_use/select_for_update/2/scheduler/?taken=12"
SCHEDULE = "/lab/races/lost_update/naive/2/?schedule=121122"
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 760}, "device_scale_factor": 2}


def main() -> None:
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
        create_short_url(page, service)
        take_picture(page, "created")
        take_visits(browser, service)
        take_lab(browser, service)
        page = browser.new_page(color_scheme="dark", **PHONE)
        page.goto(f"{service}{SCHEDULE}")
        take_picture(page, "schedule-phone")
        browser.close()


def create_short_url(page: Page, service: str) -> None:
    """Create the short URL unless its key is taken, follow it 3 times, and open its statistics."""
    page.get_by_label("Target URL").fill(TARGET_URL)
    page.get_by_label("Custom key").fill(KEY)
    page.get_by_role("button", name="Shorten").click()
    for _ in range(3):
        page.request.get(f"{service}/{KEY}", max_redirects=0)
    page.goto(f"{service}/{KEY}/stats")


def take_visits(browser: Browser, service: str) -> None:
    """Take a picture of a year of visits, where `manage.py demo` has made one."""
    page = browser.new_page(**{**DESKTOP, "viewport": {"width": 900, "height": 860}})
    page.goto(f"{service}/demo-mvcc/stats")
    page.get_by_role("link", name="90 days").click()
    page.get_by_role("heading", name="Visits").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#visits').scrollIntoView()")
    take_picture(page, "visits")
    page.close()


def take_lab(browser: Browser, service: str) -> None:
    """Take pictures of the lab as a teacher shows it."""
    page = browser.new_page(**WIDE)
    page.goto(f"{service}/lab/")
    page.evaluate("document.querySelector('#matrix').scrollIntoView()")
    take_picture(page, "lab")
    page.goto(f"{service}{SCHEDULE}")
    page.keyboard.press("End")
    page.evaluate("scrollTo(0, 0)")
    take_picture(page, "schedule")
    page.goto(f"{service}{HALFWAY}")
    take_picture(page, "scheduler")
    page.goto(f"{service}/lab/queue/")
    take_picture(page, "queue")
    page.close()


def take_picture(page: Page, name: str) -> None:
    """Write a picture of the window to docs/screenshots, and print its path and size."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
