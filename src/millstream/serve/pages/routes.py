"""The routes of all pages, and the page for errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.foundation.text import printable
from millstream.foundation.typed_decoding import convert
from millstream.serve.api.apps import HistoryParams
from millstream.serve.api.connectors import ConnectorParams
from millstream.serve.api.groups import GroupParams
from millstream.serve.api.records import RecordParams
from millstream.serve.api.sql import apps_with_sql
from millstream.serve.api.tables import ScanParams
from millstream.serve.credentials import Credentials
from millstream.serve.html import Content, element
from millstream.serve.pages.alerts import alerts_page
from millstream.serve.pages.connectors import connector_page, connectors_page
from millstream.serve.pages.dead_letters import dead_letters_page
from millstream.serve.pages.frame import Frame
from millstream.serve.pages.groups import group_page, groups_page
from millstream.serve.pages.history import history_page
from millstream.serve.pages.overview import overview
from millstream.serve.pages.parts import command, empty, url
from millstream.serve.pages.sql import sql_page
from millstream.serve.pages.tables import KeyQuery, table_page, tables_page
from millstream.serve.pages.time import time_page
from millstream.serve.pages.topics import topic_page, topics_page
from millstream.serve.pages.topology import topology_page
from millstream.serve.responses import http_status
from millstream.serve.site import Site

_log = logging.getLogger(__name__)
_RECORDS_PER_PAGE = 20
Params = dict[str, str]
Show = Callable[[Site, Frame, Params], HTMLResponse]


def page_routes(site: Site, credentials: Credentials) -> list[Route]:
    """Return the routes of all pages."""
    frame = Frame(credentials.csrf, str(site.directory.path), site.directory.broker_problem)
    return [Route(path, _endpoint(site, frame, show), methods=["GET"]) for path, show in _PAGES.items()]


def _endpoint(site: Site, frame: Frame, show: Show) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        params = {name: value for name, value in request.query_params.items() if value != ""}
        params.update(request.path_params)
        try:
            return await run_in_threadpool(show, site, frame, params)
        except MillstreamError as error:
            status = http_status(error, is_read=True)
            if isinstance(error, BrokerUnavailableError):
                return _waiting_page(frame, status)
            return _error_page(frame, status, error.message, error.hint)
        except msgspec.ValidationError as error:
            return _error_page(frame, 400, f"invalid URL: {error}", None)
        except Exception as error:
            _log.error("page %s failed: %s", printable(request.url.path), printable(repr(error)))
            message = f"{type(error).__name__} while rendering the page"
            return _error_page(frame, 500, message, "this is a bug; please report it")

    return endpoint


def _error_page(frame: Frame, status: int, message: str, hint: str | None) -> HTMLResponse:
    content = empty(message, element("p", hint or ""), element("p", element("a", "To the overview", href="/")))
    page = frame.page("", "Error", content)
    page.status_code = status
    return page


def _waiting_page(frame: Frame, status: int) -> HTMLResponse:
    """Return a page that its script loads again as soon as the broker responds; the frame names the broker."""
    content = empty(
        "This page needs the broker",
        element("p", "It is loaded again as soon as the broker responds.", data_reload=True),
        element("p", element("a", "To the overview", href="/")),
    )
    page = frame.page("", "Waiting for the broker", content)
    page.status_code = status
    return page


def _for_app(
    site: Site,
    frame: Frame,
    params: Params,
    section: str,
    show: Callable[[str], tuple[Content, ...]],
    lead: str,
    scripts: tuple[str, ...] = (),
) -> HTMLResponse:
    """Return a page about the requested app, or else the first one, with links to the others."""
    apps = site.directory.apps()
    if not apps:
        return frame.page(section, section, empty("No app has run here yet", command("millstream run word_count.py")))
    app = site.directory.check_app(params["app"]) if "app" in params else apps[0]
    path = section.lower().replace(" ", "-")
    return frame.page(
        section,
        f"{section}: {app}",
        _tabs(path, apps, app),
        *show(app),
        lead=lead,
        scripts=scripts,
    )


def _tabs(path: str, apps: list[str], app: str | None) -> Content:
    """Return the links to a page about other apps, if there are any."""
    tabs = [element("a", name, href=url(path, app=name), aria_current="true" if name == app else None) for name in apps]
    return element("p", *tabs, class_="tabs") if len(apps) > 1 else None


def _overview(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    lead = "Every app that is running, or has run, on this data directory."
    return frame.page("Overview", "Overview", *overview(site), lead=lead)


def _topology(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    lead = "What the app does with records, with live metrics."
    return _for_app(site, frame, params, "Topology", lambda app: topology_page(site, app), lead, ("topology.js",))


def _history(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    minutes = convert({"app": "any", **params}, HistoryParams, strict=False).minutes
    lead = "The app over time, from the sums of each minute that its journal keeps for a day."
    return _for_app(site, frame, params, "History", lambda app: history_page(site, app, minutes), lead, ("charts.js",))


def _topics(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    return frame.page("Topics", "Topics", *topics_page(site), lead="Size, throughput and consumers of every topic.")


def _topic(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    view = "table" if params.pop("view", "stream") == "table" else "stream"
    search = convert({"limit": _RECORDS_PER_PAGE, **params}, RecordParams, strict=False)
    return frame.page("Topics", search.topic, *topic_page(site, search, view), scripts=("records.js",))


def _tables(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    lead = "The state of apps as of their last batch. Reads never block an app."
    return frame.page("Tables", "Tables", *tables_page(site), lead=lead)


def _table(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    query = KeyQuery(*(params.pop(name, None) for name in KeyQuery._fields))
    scan = convert(params, ScanParams, strict=False)
    return frame.page("Tables", scan.table, *table_page(site, scan, query), lead=f"A table of {scan.app}.")


def _sql(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    """Return the page for the requested app, or else the first one that has SQL; topics can be queried without one."""
    apps = apps_with_sql(site)
    app = site.directory.check_app(params["app"]) if "app" in params else next(iter(apps), None)
    lead = "Query the tables and streams of an app. Reads never block an app."
    tabs = _tabs("sql", apps, app)
    title = "SQL" if app is None else f"SQL: {app}"
    return frame.page("SQL", title, tabs, *sql_page(site, app), lead=lead, scripts=("sql.js",))


def _time(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    query = (params.get("table"), params.get("key"), params.get("time"))
    lead = "The event time of the app, and what it means for windows."
    return _for_app(site, frame, params, "Time", lambda app: time_page(site, app, *query), lead)


def _groups(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    return frame.page("Groups", "Groups", *groups_page(site), lead="Consumer groups and their lag.")


def _group(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    group = convert(params, GroupParams, strict=False)
    return frame.page("Groups", group.group, *group_page(site, group))


def _connectors(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    lead = "What is read from other systems, and written to them."
    return frame.page("Connectors", "Connectors", *connectors_page(site), lead=lead)


def _connector(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    connector = convert(params, ConnectorParams, strict=False)
    lead = f"A connector of {connector.app}."
    return frame.page("Connectors", connector.connector, *connector_page(site, connector), lead=lead)


def _dead_letters(site: Site, frame: Frame, params: Params) -> HTMLResponse:
    lead = "Records that could not be processed, and why."
    return _for_app(site, frame, params, "Dead letters", lambda app: dead_letters_page(site, app), lead)


def _alerts(site: Site, frame: Frame, _: Params) -> HTMLResponse:
    lead = "Notifications for when a number passes its limit."
    return frame.page("Alerts", "Alerts", *alerts_page(site), lead=lead)


_PAGES: dict[str, Show] = {
    "/": _overview,
    "/topology": _topology,
    "/history": _history,
    "/topics": _topics,
    "/topics/{topic}": _topic,
    "/tables": _tables,
    "/tables/{app}/{table}": _table,
    "/sql": _sql,
    "/time": _time,
    "/groups": _groups,
    "/groups/{group}": _group,
    "/connectors": _connectors,
    "/connectors/{app}/{connector}": _connector,
    "/dead-letters": _dead_letters,
    "/alerts": _alerts,
}
