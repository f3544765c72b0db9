"""A headless Chromium that talks to nobody, and the page of a made-up report in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from srgdqn.paper.report.files import write_report
from synthetic_report import synthetic_report

QUIET = (
    "--headless=new",
    "--no-sandbox",  # which does not work for root in a container
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--metrics-recording-only",
    "--no-first-run",
    "--window-size=1300,900",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no chromium or no chromedriver here: the page is not tested in a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in QUIET:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Told where its driver is, Selenium looks for none on the network.
    with webdriver.Chrome(options=options, service=Service(driver)) as started:
        started.set_script_timeout(30)
        yield started


@pytest.fixture(scope="session")
def report_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(synthetic_report(), folder)
    return folder
