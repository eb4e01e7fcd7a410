"""Write the README's pictures, docs/screenshots/*.png, from a running service.

    python docs/screenshots.py [http://127.0.0.1:8000]

Run `manage.py demo` before, which makes the links with a year of visits.
"""

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "screenshots"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service", nargs="?", default="http://127.0.0.1:8000")
    service = parser.parse_args().service.rstrip("/")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        # Without a sandbox, because root has none; it opens nothing but the service.
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{service}/lab/races/lost_update/naive/2/?schedule=121122")
        page.keyboard.press("End")  # the last step
        page.evaluate("scrollTo(0, 0)")
        take_picture(page, "schedule")
        page.set_viewport_size({"width": 900, "height": 860})
        page.goto(f"{service}/demo-mvcc/stats")
        page.get_by_role("link", name="90 days").click()
        page.evaluate("document.querySelector('#visits').scrollIntoView()")
        take_picture(page, "visits")
        browser.close()


def take_picture(page: Page, name: str) -> None:
    """Write a picture of the window to docs/screenshots, and print its path and size."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
