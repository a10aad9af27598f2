"""The documentation site: built strictly, its links followed, its pages opened in a browser."""

from __future__ import annotations

import base64
import os
import posixpath
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
import tomli
from rule_cases import read_cases

from torchlint.measure.results import load_all
from torchlint.output.pages import fix_kind
from torchlint.rule.registry import load_rules

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

if sys.version_info < (3, 11):
    pytest.skip("Zensical needs Python 3.11", allow_module_level=True)

#: Together in one process: the site that they share takes long to build.
pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The built site, and what the build said; made of a copy, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site", done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(build: tuple[Path, str]) -> Path:
    """The built site."""
    return build[0]


def url_of(page: str) -> str:
    """Where the site has a page of ``docs/``."""
    return re.sub(r"(index)?\.md$", "", page) if page.endswith("index.md") else page.removesuffix(".md") + "/"


# Sources


def test_the_build_has_nothing_to_warn_of(build: tuple[Path, str]) -> None:
    assert "No issues found" in build[1]
    assert "Warning" not in build[1]


def test_the_menu_holds_every_page_and_no_other() -> None:
    def paths(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [path for part in parts for path in paths(part)]

    menu = paths(tomli.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    assert sorted(menu) == PAGES


def test_links_between_pages_work_in_the_repository_too() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not urlsplit(target).scheme and not target.startswith("#"):
                path = (DOCS / page).parent / urlsplit(target).path
                assert path.is_file(), f"docs/{page} links to {target}"
                assert path.resolve().is_relative_to(DOCS), f"docs/{page} links out of docs/: {target}"


def test_the_start_page_has_no_chart_of_a_cpu() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "](evidence/" not in text or any(results.environment["type"] == "cuda" for results in load_all())


def test_a_rule_is_said_to_have_a_fix_if_it_has_one() -> None:
    for rule in load_rules():
        fixed = any(case.fixed for case in read_cases(rule.name))
        assert (fix_kind(rule) != "none") is fixed, rule.code


# The built pages


@dataclass
class Built(HTMLParser):
    """What there is to check of a page without a browser."""

    path: str
    language: str = ""
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)  #: what the browser fetches to show the page
    pictures: list[dict[str, str | None]] = field(default_factory=list)
    headings: int = 0
    prose: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if name := values.get("id"):
            self.ids.add(name)
        self.language = values.get("lang") or self.language if tag == "html" else self.language
        self.headings += tag == "h1"
        if tag in ("article", "p", "li", "code"):
            self.inside.append(tag)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "img":
            self.pictures.append(values)
        if tag in ("img", "script", "link") and values.get("rel") not in ("prev", "next", "canonical"):
            self.loads += [value for name in ("src", "href") if (value := values.get(name))]

    def handle_endtag(self, tag: str) -> None:
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if "article" in self.inside and {"p", "li"} & set(self.inside) and "code" not in self.inside:
            self.prose += data


@pytest.fixture(scope="module")
def built(site: Path) -> dict[str, Built]:
    """All pages of the site by their path."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        page = Built(file.relative_to(site).as_posix())
        page.feed(file.read_text(encoding="utf-8"))
        pages[page.path] = page
    assert len(pages) == len(PAGES) + 1  # the page for what is not found
    return pages


def test_every_link_of_the_site_leads_somewhere(site: Path, built: dict[str, Built]) -> None:
    broken = []
    for page in built.values():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            folder = "/" if page.path == "404.html" else f"/{posixpath.dirname(page.path)}/"
            path = posixpath.normpath(posixpath.join(folder, unquote(parts.path))).lstrip("/")
            if not parts.path:
                path = page.path
            elif (site / path).is_dir():
                path = posixpath.join(path, "index.html") if path != "." else "index.html"
            known = {"", "__skip", *built[path].ids} if path in built else {parts.fragment}
            if not (site / path).is_file() or unquote(parts.fragment) not in known:
                broken.append(f"{page.path}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(built: dict[str, Built]) -> None:
    foreign = [(page.path, load) for page in built.values() for load in page.loads if urlsplit(load).netloc]
    assert foreign == []


def test_pages_are_in_one_language_have_one_title_and_describe_their_pictures(built: dict[str, Built]) -> None:
    for page in built.values():
        assert page.language == "en"
        assert page.headings == 1, page.path
        assert all(values.get("alt") for values in page.pictures), page.path


def test_no_markdown_is_left_over(built: dict[str, Built]) -> None:
    """A list or table that another renderer of Markdown takes for one, and this one for a paragraph."""
    for page in built.values():
        left = re.search(r"^\s*([-*|+]|\d+\.) .*|.*(```|\]\(|\*\*).*|^#+ .*", page.prose, re.MULTILINE)
        assert left is None, (page.path, left[0])
    for source in PAGES:
        text = re.sub(r"^```.*?^```", "", (DOCS / source).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^ {1,3}([-*]|\d+\.) ", text, re.MULTILINE), (
            f"{source}: four spaces make a list in a list"
        )


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    names = (os.environ.get("CHROME", ""), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium; set CHROME to its path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab of its own, as wide as a desktop's."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    yield context.new_page()
    context.close()


def test_every_page_renders_without_errors_and_without_other_hosts(page: Page, address: str) -> None:
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:")) else trouble.append(request.url)
    )
    for source in PAGES:
        response = page.goto(address + url_of(source))
        assert response is not None and response.status == 200
        text = (DOCS / source).read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        assert title is not None, source
        heading = page.locator("h1").inner_text().strip().removesuffix("¶").strip()
        assert heading == title[1].replace("`", ""), source
        assert page.title() == f"{'Start' if source == 'index.md' else heading} - torchlint"
        fences = re.findall(r"^```(?!text$)\w+$", text, re.MULTILINE)
        assert page.locator(".highlight code:has(span[class])").count() == len(fences), source
    page.wait_for_load_state("networkidle")
    assert trouble == []  # a file that is missing is an error of the console, too


#: The elements of a page whose content is wider than they are, so that a part of it is hidden or needs scrolling.
CLIPPED = """() => [...document.querySelectorAll(".md-content pre code, .md-typeset__scrollwrap, .md-content img")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth)
  .map(e => e.innerText.slice(0, 80))"""


def test_nothing_is_clipped_on_a_small_desktop(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    for source in ("index.md", "evidence.md", "rules/index.md", "rules/TL101.md"):
        tab.goto(address + url_of(source))
        assert tab.evaluate(CLIPPED) == [], source
    context.close()


def test_the_install_command_is_visible_without_scrolling(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    tab = context.new_page()
    tab.goto(address)
    box = tab.get_by_text("pip install").first.bounding_box()
    assert box is not None and box["y"] + box["height"] < 720
    context.close()


def test_no_page_is_wider_than_a_phone(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    tab = context.new_page()
    for source in PAGES:
        tab.goto(address + url_of(source))
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, source
    context.close()


@pytest.mark.parametrize("words", ["TL402", "missing-no-grad"])
def test_the_search_finds_a_rule(words: str, page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill(words)
    first = page.get_by_role("option").first
    first.wait_for()
    assert "TL402 missing-no-grad" in first.inner_text()
    first.click()
    page.wait_for_url("**/rules/TL402/**")
    assert page.locator("h1").inner_text().startswith("TL402 missing-no-grad")


def test_the_site_can_be_used_by_keyboard(page: Page, address: str) -> None:
    page.goto(address + "evidence/")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#__skip"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.md-content a[href*=\"rules/TL101\"]')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules/TL101/")


#: The darkest and the lightest of the colours that fill at least a share of a picture: (brightness, share).
READ = """async data => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + data;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const linear = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const shades = [];
  for (let at = 0; at < pixels.length; at += 4)
    shades.push(0.2126 * linear(pixels[at]) + 0.7152 * linear(pixels[at + 1]) + 0.0722 * linear(pixels[at + 2]));
  shades.sort((a, b) => a - b);
  const of = share => shades[Math.floor(share * (shades.length - 1))];
  return [of(0.002), of(0.5), of(0.998)];
}"""


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("chosen", ["default", "slate"])
def test_charts_are_legible_in_the_scheme_of_the_site(system: str, chosen: str, browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme=system)
    tab = context.new_page()
    tab.goto(address + "evidence/")
    name = {"default": "Switch to light mode", "slate": "Switch to dark mode"}
    tab.get_by_title(name["default"]).click()
    if chosen == "slate":
        tab.get_by_title(name["slate"]).click()
    assert tab.evaluate("document.body.dataset.mdColorScheme") == chosen
    for chart in tab.locator('img[src$=".svg"]').all():
        shot = base64.b64encode(chart.screenshot()).decode()
        darkest, paper, lightest = tab.evaluate(READ, shot)
        ink = darkest if chosen == "default" else lightest
        assert paper > 0.9 if chosen == "default" else paper < 0.1, "the picture keeps to the other scheme"
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 7, "the text stands out from the paper"
    context.close()
