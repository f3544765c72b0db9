"""The page as a reader has it: in a browser, on a phone, without scripts, with a keyboard."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from axe_core_python.selenium import Axe
from polars.testing import assert_frame_equal
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from srgdqn.figures.charts import data_of
from synthetic_report import AXES, LABELS, synthetic_report

pytestmark = pytest.mark.browser

CHARTS = {chart.name: chart for chart in synthetic_report().charts}
SIZES = [(1_400, 900), (390, 844)]
VISIBLE_SERIES = "trace => trace.visible && trace.fill !== 'toself'"


@pytest.fixture
def page(browser: Chrome, report_folder: Path) -> Iterator[Chrome]:
    """The page, freshly opened in a wide window."""
    resize(browser, 1_300, 900)
    logged(browser)
    browser.get((report_folder / "report.html").as_uri())
    loaded(browser)
    yield browser
    assert logged(browser) == []


def resize(browser: Chrome, width: int, height: int) -> None:
    metrics = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def loaded(browser: Chrome) -> None:
    """Waits for the end of loading, which the driver at times does not."""
    WebDriverWait(browser, 30).until(lambda driver: driver.execute_script("return document.readyState") == "complete")


def logged(browser: Chrome) -> list[str]:
    """What the console has said since it was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def plots_of(browser: Chrome, chart: str, expression: str) -> list[Any]:
    """An expression of every plot (`plot`) of a chart."""
    script = f"return [...document.querySelectorAll('#chart-{chart} .plot')].map(plot => {expression})"
    return browser.execute_script(script)


def draw_all(browser: Chrome) -> None:
    """What printing does."""
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    wanted = sum(len(chart.panels) for chart in CHARTS.values())
    drawn = "return document.querySelectorAll('.plot .xtitle').length"
    WebDriverWait(browser, 30).until(lambda driver: driver.execute_script(drawn) == wanted)


def control(browser: Chrome, chart: str, text: str) -> WebElement:
    """The control whose label, or the button whose text, this is."""
    found = [
        element
        for element in browser.find_elements(By.CSS_SELECTOR, f"#chart-{chart} label, #chart-{chart} button")
        if element.text.strip("■ \n") == text
    ]
    (only,) = found
    return only


def names(browser: Chrome, chart: str) -> list[list[str]]:
    """The names of the series that are to be seen in each plot."""
    return plots_of(browser, chart, f"plot.data.filter({VISIBLE_SERIES}).map(trace => trace.name)")


def shown(label: str, group: str) -> str:
    return " · ".join(part for part in (label, group) if part)


def test_nothing_is_asked_of_any_network(page: Chrome) -> None:
    draw_all(page)
    entries = page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in entries if not name.startswith(("data:", "blob:"))] == []
    asked = set()
    for entry in page.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"].split(":")[0])
    assert asked <= {"file", "data", "blob"}


def test_charts_are_drawn_when_they_come_near(page: Chrome) -> None:
    count = "return document.querySelectorAll('#chart-{} .xtitle').length"
    WebDriverWait(page, 30).until(lambda driver: driver.execute_script(count.format("first-contrasts")) == 3)
    assert page.execute_script(count.format("costs")) == 0
    page.execute_script("location.hash = 'chart-costs'")
    WebDriverWait(page, 30).until(lambda driver: driver.execute_script(count.format("costs")) == 2)
    assert page.execute_script(count.format("figure-2")) == 0  # which is folded


@pytest.mark.parametrize("name", CHARTS)
def test_plots_show_the_numbers_of_the_chart(page: Chrome, name: str) -> None:
    draw_all(page)
    plots = plots_of(page, name, "plot.data.filter(trace => trace.fill !== 'toself')")
    for panel, traces in zip(CHARTS[name].panels, plots, strict=True):
        along = next(iter(panel.x_labels))
        for series, trace in zip(panel.series, traces, strict=True):
            assert trace["name"] == shown(series.label, series.group)
            assert trace["visible"] == series.shown
            x, y = ("y", "x") if panel.horizontal else ("x", "y")
            np.testing.assert_allclose(np.array(trace[x], float), series.x[along], rtol=1e-4)
            np.testing.assert_allclose(np.array(trace[y], float), series.y, rtol=1e-4)
            if series.low is not None:
                edges = np.array(trace["customdata"], float)
                np.testing.assert_allclose(edges, np.stack([series.low, series.high], axis=1), rtol=1e-4)
    problems = plots_of(page, name, "Plotly.validate(plot.data, plot.layout) || []")
    # What plotly leaves unused, such as looks of hidden series, is no mistake.
    assert [each for plot in problems for each in plot if each["code"] != "unused"] == []


def test_bands_stop_where_there_are_no_edges(page: Chrome) -> None:
    draw_all(page)
    (series,) = [
        each for each in CHARTS["figure-2"].panels[0].series if (each.label, each.group) == ("svr-dqn", "corrected")
    ]
    bands = plots_of(page, "figure-2", "plot.data.find(trace => trace.fill === 'toself')")
    assert series.low is not None
    present = np.flatnonzero(np.isfinite(series.low))
    x, y = (np.array(bands[0][axis], float) for axis in "xy")
    stretches = [present[present < 12], present[present > 12]]
    expected_x = [[*series.x["steps"][each], *series.x["steps"][each][::-1], np.nan] for each in stretches]
    expected_y = [[*series.high[each], *series.low[each][::-1], np.nan] for each in stretches]  # type: ignore[index]
    np.testing.assert_allclose(x, np.concatenate(expected_x))
    np.testing.assert_allclose(y, np.concatenate(expected_y), rtol=1e-4)


def test_an_algorithm_is_switched_off_in_all_panels(page: Chrome) -> None:
    draw_all(page)
    on = [shown(label, "corrected") for label in LABELS if label != "dqn-adam"]
    assert names(page, "figure-2") == [on] * 3
    others = names(page, "costs")
    control(page, "figure-2", "svr-dqn").click()
    assert names(page, "figure-2") == [[name for name in on if "svr-dqn" not in name]] * 3
    bands = "plot.data.filter(trace => trace.fill === 'toself' && trace.visible).map(trace => trace.name)"
    assert plots_of(page, "figure-2", bands)[0] == ["srg-dqn-no-adam · corrected", "srg-dqn · corrected"]
    assert names(page, "costs") == others
    # What started hidden can be had, too; and a keyboard will do.
    box = control(page, "figure-2", "dqn-adam").find_element(By.TAG_NAME, "input")
    box.send_keys(Keys.SPACE)
    assert names(page, "figure-2")[0][-1] == "dqn-adam · corrected"
    control(page, "figure-2", "none").click()
    assert names(page, "figure-2") == [[]] * 3
    control(page, "figure-2", "all").click()
    assert names(page, "figure-2") == [[shown(label, "corrected") for label in LABELS]] * 3


def test_groups_are_switched_without_what_is_off(page: Chrome) -> None:
    draw_all(page)
    control(page, "figure-2", "printed").click()
    on = [label for label in LABELS if label != "dqn-adam"]
    assert names(page, "figure-2") == [[shown(label, group) for group in ("corrected", "printed") for label in on]] * 3
    control(page, "figure-2", "corrected").click()
    assert names(page, "figure-2") == [[shown(label, "printed") for label in on]] * 3


def test_the_axis_is_switched_where_a_panel_has_it(page: Chrome) -> None:
    draw_all(page)
    titles = "plot.layout.xaxis.title.text"
    assert plots_of(page, "figure-2", titles) == [AXES["steps"], "episodes", AXES["steps"]]
    for axis, label in AXES.items():
        control(page, "figure-2", label).click()
        assert plots_of(page, "figure-2", titles) == [label] * 3
        drawn = plots_of(page, "figure-2", "plot.data.filter(trace => trace.fill !== 'toself').map(trace => trace.x)")
        for panel, traces in zip(CHARTS["figure-2"].panels, drawn, strict=True):
            for series, x in zip(panel.series, traces, strict=True):
                np.testing.assert_allclose(x, series.x[axis], rtol=1e-4)
    seen = page.find_element(By.CSS_SELECTOR, "#chart-figure-2 .plot .xtitle").text
    assert seen == AXES["seconds"]
    described = page.find_element(By.CSS_SELECTOR, "#chart-figure-2 .plot").get_attribute("aria-label")
    assert described is not None
    assert described.endswith(f"for {', '.join(LABELS)}, against {AXES['seconds']}")
    control(page, "figure-2", "episodes").click()
    assert plots_of(page, "figure-2", titles) == [AXES["steps"], "episodes", AXES["steps"]]


def test_the_data_come_as_a_file(page: Chrome, tmp_path: Path) -> None:
    name = "figure-2"
    draw_all(page)
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    control(page, name, "Data as CSV").click()
    path = tmp_path / f"{name}.csv"
    WebDriverWait(page, 20).until(lambda _: path.exists() and not list(tmp_path.glob("*.crdownload")))
    expected = data_of(CHARTS[name]).with_columns(pl.selectors.float().fill_nan(None))
    found = pl.read_csv(path, schema_overrides=dict(expected.schema)).with_columns(pl.selectors.string().fill_null(""))
    assert_frame_equal(found.select(expected.columns), expected, rel_tol=1e-4, abs_tol=0)


def parts_of_the_first_screen(browser: Chrome) -> list[tuple[str, dict[str, float]]]:
    """Its parts as they follow each other, with their edges."""
    return browser.execute_script(
        """
        const parts = ["h1", ".claimed", ".fare", ".answer", ".small", ".forest"];
        return parts.map((part) => [part, document.querySelector(part).getBoundingClientRect().toJSON()]);
        """
    )


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_first_screen_comes_first_and_nothing_is_wider_than_the_window(
    page: Chrome, width: int, height: int
) -> None:
    resize(page, width, height)
    page.refresh()
    loaded(page)
    parts = dict(parts_of_the_first_screen(page))
    assert all(part["height"] > 20 for part in parts.values())
    if width < 600:
        tops = [part["top"] for part in parts.values()]
        assert tops == sorted(tops)
        assert len({part["left"] for part in parts.values()}) == 1
        assert parts[".fare"]["bottom"] <= height
    else:
        # Question and scores stand beside each other; of the forest more than the beginning is seen.
        assert parts[".answer"]["right"] <= parts[".small"]["left"]
        assert parts["h1"]["bottom"] <= parts[".claimed"]["top"] < parts[".fare"]["top"] < parts[".answer"]["top"]
        assert parts[".small"]["bottom"] <= parts[".forest"]["top"] < height - 200
    texts = page.find_element(By.CSS_SELECTOR, ".strip").text.split()
    assert {"hold", "fail", "undecided", "moot", "corrected", "printed", "mnih"} <= set(texts)
    # The small table is read without scrolling it.
    inner = "const box = document.querySelector('.small .scrolling'); return box.scrollWidth - box.clientWidth"
    assert page.execute_script(inner) <= 0
    page.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")
    draw_all(page)
    assert page.execute_script("return document.scrollingElement.scrollWidth") <= width
    wide = page.execute_script(
        """
        const limit = document.documentElement.clientWidth + 0.5;
        const boxes = [...document.querySelectorAll("main *")].filter((each) => !each.closest(".scrolling, svg"));
        return boxes.filter((each) => each.getBoundingClientRect().right > limit).map((each) => each.className);
        """
    )
    assert wide == []


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", ["variance", "chart-costs", "table-table-2", "configurations", "rules", "words"])
def test_an_address_opens_what_it_points_to(
    browser: Chrome, report_folder: Path, name: str, width: int, height: int
) -> None:
    resize(browser, width, height)
    browser.get("about:blank")
    browser.get((report_folder / "report.html").as_uri() + f"#{name}")
    loaded(browser)
    target = browser.find_element(By.ID, name)
    WebDriverWait(browser, 30).until(lambda _: target.is_displayed())
    seen = "const box = arguments[0].getBoundingClientRect(); return box.top >= -1 && box.top < innerHeight"
    WebDriverWait(browser, 30).until(lambda driver: driver.execute_script(seen, target))
    # Only that.
    others = [each for each in ("figure-2", "text", "facts") if name not in (each, "table-table-2")]
    assert not any(browser.find_element(By.ID, each).is_displayed() for each in others)


def test_links_open_what_is_folded_and_as_often_as_one_likes(page: Chrome) -> None:
    card = page.find_element(By.ID, "C1")
    section = page.find_element(By.ID, "figure-2")
    assert not section.is_displayed()
    for _ in range(2):
        page.execute_script("arguments[0].click()", card.find_element(By.LINK_TEXT, "Figure 2: learning curves"))
        WebDriverWait(page, 30).until(lambda _: section.is_displayed())
        page.execute_script("arguments[0].closest('details').open = false", section)
        assert not section.is_displayed()


def test_a_card_has_a_permalink_that_leads_to_it(page: Chrome) -> None:
    card = page.find_element(By.ID, "C9")
    page.execute_script("arguments[0].click()", card.find_element(By.CLASS_NAME, "permalink"))
    assert page.execute_script("return location.hash") == "#C9"
    top = "return document.getElementById('C9').getBoundingClientRect().top"
    WebDriverWait(page, 30).until(lambda driver: 0 <= driver.execute_script(top) < 100)


def test_a_card_shows_its_figure_and_leads_to_it(page: Chrome) -> None:
    card = page.find_element(By.ID, "C18")
    image = card.find_element(By.CSS_SELECTOR, ".thumb img")
    page.execute_script("arguments[0].scrollIntoView()", image)
    WebDriverWait(page, 30).until(lambda driver: driver.execute_script("return arguments[0].naturalWidth", image) > 300)
    assert image.get_attribute("alt") == "Figure: Learning curves"
    image.click()
    chart = page.find_element(By.ID, "chart-figure-2")
    WebDriverWait(page, 30).until(lambda _: chart.is_displayed())


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_small_table_is_seen_whole(browser: Chrome, report_folder: Path, width: int, height: int) -> None:
    resize(browser, width, height)
    browser.get((report_folder / "report.html").as_uri())
    loaded(browser)
    hidden = "const box = document.querySelector('.small .scrolling'); return box.scrollWidth - box.clientWidth"
    assert browser.execute_script(hidden) <= 0


def test_an_odd_address_does_no_harm(page: Chrome) -> None:
    page.execute_script("location.hash = '%E0%A4%A'")
    page.execute_script("location.hash = 'C2-(at-their-own-θ)'")
    top = "return document.getElementById('C2-(at-their-own-θ)').getBoundingClientRect().top"
    WebDriverWait(page, 30).until(lambda driver: 0 <= driver.execute_script(top) < 100)


def test_print_opens_everything_and_closes_it_again(page: Chrome) -> None:
    folds = page.find_elements(By.CSS_SELECTOR, "details.folded")
    folds[0].find_element(By.TAG_NAME, "summary").click()
    draw_all(page)
    assert all(each.get_attribute("open") for each in folds)
    page.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert [bool(each.get_attribute("open")) for each in folds] == [True] + [False] * (len(folds) - 1)


def test_a_phone_scrolls_only_down(page: Chrome) -> None:
    resize(page, 375, 800)
    page.refresh()
    loaded(page)
    draw_all(page)
    page.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.execute_script("return document.scrollingElement.scrollWidth") <= 375
    lefts = plots_of(page, "figure-2", "plot.getBoundingClientRect().left")
    assert len(set(lefts)) == 1  # one below the other
    small = page.execute_script(
        """
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const small = [];
        while (walker.nextNode()) {
          const node = walker.currentNode, box = node.parentElement;
          if (!node.textContent.trim() || ["SCRIPT", "STYLE"].includes(box.tagName)) continue;
          // Exponents are smaller than what they stand beside.
          const least = box.closest("tspan") ? 9 : box.closest("svg") ? 13 : 14;
          if (box.getClientRects().length && parseFloat(getComputedStyle(box).fontSize) < least) {
            small.push(node.textContent);
          }
        }
        return small;
        """
    )
    assert small == []


def test_everybody_can_use_it(page: Chrome) -> None:
    draw_all(page)
    page.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.execute_script(Axe().axe_script)
    found = page.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    violations = [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]]) for each in found["violations"]
    ]
    assert violations == []
    passed = {each["id"] for each in found["passes"]}
    assert passed >= {"color-contrast", "label", "html-has-lang", "image-alt", "role-img-alt"}


def test_without_scripts_images_stand_in(browser: Chrome, report_folder: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        resize(browser, 1_300, 900)
        browser.get((report_folder / "report.html").as_uri())
        images = browser.find_elements(By.CSS_SELECTOR, "figure img")
        assert len(images) == len(CHARTS)
        for fold in browser.find_elements(By.CSS_SELECTOR, ".fold > details > summary"):
            fold.click()
        for image in images:
            assert image.is_displayed()
            assert image.size["width"] > 300
        assert not any(each.is_displayed() for each in browser.find_elements(By.CSS_SELECTOR, ".controls, .plots"))
        assert all(
            each.is_displayed()
            for each in browser.find_elements(By.CSS_SELECTOR, ".strip, .small > div .scores, .card")
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_with_scripts_images_wait_to_be_asked_for(page: Chrome) -> None:
    (image, *_) = page.find_elements(By.CSS_SELECTOR, "figure img")
    assert not image.is_displayed()
    (summary, *_) = page.find_elements(By.CSS_SELECTOR, "figure summary")
    assert summary.text == "As an image"
    summary.click()
    assert image.is_displayed()


def test_a_zoom_outlasts_switches_until_it_is_reset(page: Chrome) -> None:
    draw_all(page)
    ranges = "plot._fullLayout.xaxis.range"
    wide = plots_of(page, "figure-2", ranges)
    page.execute_async_script(
        "Plotly.relayout(document.querySelector('#chart-figure-2 .plot'), {'xaxis.range': [5000, 9000]})"
        ".then(arguments[arguments.length - 1])"
    )
    control(page, "figure-2", "svr-dqn").click()
    assert plots_of(page, "figure-2", ranges) == [[5_000, 9_000], *wide[1:]]
    control(page, "figure-2", "Reset zoom").click()
    assert plots_of(page, "figure-2", ranges) == wide
