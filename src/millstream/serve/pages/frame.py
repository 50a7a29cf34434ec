"""The frame of every page: head, navigation and footer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import HTMLResponse

from millstream.errors import MillstreamError
from millstream.serve.html import Content, Markup, element, joined, page_text
from millstream.serve.pages.parts import url
from millstream.serve.static import static_url

_PAGES = (
    ("Overview", ()),
    ("Topology", ("topology",)),
    ("History", ("history",)),
    ("Topics", ("topics",)),
    ("Tables", ("tables",)),
    ("SQL", ("sql",)),
    ("Time", ("time",)),
    ("Groups", ("groups",)),
    ("Connectors", ("connectors",)),
    ("Dead letters", ("dead-letters",)),
    ("Alerts", ("alerts",)),
)


@dataclass(frozen=True)
class Frame:
    """Settings that all pages of one server share."""

    csrf: str
    data_dir: str
    broker_problem: Callable[[], MillstreamError | None]

    def page(
        self, section: str, title: str, *content: Content, lead: Content = None, scripts: tuple[str, ...] = ()
    ) -> HTMLResponse:
        """Return a complete page; ``section`` is its entry in the navigation."""
        head = (
            element("title", f"{title} · Millstream"),
            element("meta", name="csrf", content=self.csrf),
            element("meta", name="color-scheme", content="light dark"),
            element("link", rel="stylesheet", href=static_url("style.css")),
            element("link", rel="icon", href=static_url("icon.svg"), type="image/svg+xml"),
            *(
                element("script", src=static_url(name), defer=True)
                for name in ("live.js", "actions.js", "tables.js", *scripts)
            ),
        )
        main = element(
            "main",
            element("header", element("h1", title), element("p", lead, class_="lead") if lead else None),
            element("div", self._banner(), id="broker-state", data_live=True, class_="wide"),
            *content,
            id="main",
            tabindex=-1,
        )
        toast = element("div", id="toast", role="status", hidden=True)
        body = (element("a", "Skip to content", href="#main", class_="skip"), self._side(section), main, toast)
        return HTMLResponse(page_text(head, *body))

    def _banner(self) -> Content:
        """Return what every page says while the broker cannot be reached."""
        problem = self.broker_problem()
        if problem is None:
            return None
        note = "Topics and groups are not available, and lag is as of the last batch."
        return element("p", element("b", problem.message.capitalize(), "."), " ", note, class_="banner", role="alert")

    def _side(self, section: str) -> Markup:
        items = [
            element("li", element("a", name, href=url(*path), aria_current="page" if name == section else None))
            for name, path in _PAGES
        ]
        brand = element(
            "a",
            element("img", src=static_url("icon.svg"), alt="", width=28, height=28),
            "Millstream",
            href="/",
            class_="brand",
        )
        foot = element(
            "footer",
            element("p", element("span", "connecting", id="live-state", role="status")),
            element("p", element("button", "Theme", type="button", id="theme", title="Light, dark, or system")),
            element("p", element("a", "API", href="/api/openapi.json")),
            element("p", self.data_dir, class_="data-dir", title=self.data_dir),
        )
        menu = element("nav", element("ul", *items), aria_label="Pages")
        return element("aside", joined(brand, menu, foot), class_="side")
