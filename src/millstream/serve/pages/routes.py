"""Which page is at which address, and what a page shows when it cannot be shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from millstream.errors import MillstreamError
from millstream.foundation.text import printable
from millstream.serve.answers import status_of
from millstream.serve.api.groups import GroupParams
from millstream.serve.api.records import RecordParams
from millstream.serve.api.tables import ScanParams
from millstream.serve.guard import Keys
from millstream.serve.html import Content, Markup, element
from millstream.serve.pages.alerts import alerts_page
from millstream.serve.pages.frame import Frame
from millstream.serve.pages.groups import group_page, groups_page
from millstream.serve.pages.letters import letters_page
from millstream.serve.pages.overview import overview
from millstream.serve.pages.parts import command, empty, url
from millstream.serve.pages.tables import Asked, table_page, tables_page
from millstream.serve.pages.time import time_page
from millstream.serve.pages.topics import topic_page, topics_page
from millstream.serve.pages.topology import topology_page
from millstream.serve.site import Site

_log = logging.getLogger(__name__)
_RECORDS_SHOWN = 20
Given = dict[str, str]
Show = Callable[[Site, Frame, Given], HTMLResponse]


def page_routes(site: Site, keys: Keys) -> list[Route]:
    """Return the routes of all pages."""
    frame = Frame(keys.csrf, str(site.place.data_dir))
    return [Route(path, _endpoint(site, frame, show), methods=["GET"]) for path, show in _PAGES.items()]


def _endpoint(site: Site, frame: Frame, show: Show) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        given = {name: value for name, value in request.query_params.items() if value != ""}
        given.update(request.path_params)
        try:
            return await run_in_threadpool(show, site, frame, given)
        except MillstreamError as error:
            page = frame.page("", "That did not work", _problem(error.message, error.hint))
            page.status_code = status_of(error, reading=True)
        except msgspec.ValidationError as error:
            page = frame.page("", "That did not work", _problem(f"the address does not fit: {error}", "go back"))
            page.status_code = 400
        except Exception as error:
            _log.error("page %s failed: %s", printable(request.url.path), printable(repr(error)))
            page = frame.page(
                "", "That did not work", _problem(f"{type(error).__name__} while drawing", "this is a bug")
            )
            page.status_code = 500
        return page

    return answer


def _problem(message: str, hint: str | None) -> Markup:
    return empty(message, element("p", hint or ""), element("p", element("a", "To the overview", href="/")))


def _for_app(
    site: Site,
    frame: Frame,
    given: Given,
    here: str,
    show: Callable[[str], tuple[Content, ...]],
    lead: str,
    scripts: tuple[str, ...] = (),
) -> HTMLResponse:
    """Return a page about one app: the one that is asked for, else the first, with a way to the others."""
    apps = site.place.apps()
    if not apps:
        nothing = empty("No app has run here yet", command("millstream run word_count.py"))
        return frame.page(here, here, nothing)
    app = site.place.check_app(given["app"]) if "app" in given else apps[0]
    path = here.lower().split()[-1]
    tabs = [element("a", one, href=url(path, app=one), aria_current="true" if one == app else None) for one in apps]
    return frame.page(
        here,
        f"{here}: {app}",
        element("p", *tabs, class_="tabs") if len(apps) > 1 else None,
        *show(app),
        lead=lead,
        scripts=scripts,
    )


def _overview(site: Site, frame: Frame, _: Given) -> HTMLResponse:
    return frame.page(
        "Overview", "Overview", *overview(site), lead="Every app that runs, or has run, on this data directory."
    )


def _topology(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    lead = "What the app does with records, as it runs."
    return _for_app(site, frame, given, "Topology", lambda app: topology_page(site, app), lead, ("topology.js",))


def _topics(site: Site, frame: Frame, _: Given) -> HTMLResponse:
    return frame.page(
        "Topics", "Topics", *topics_page(site), lead="Logs of records: how large, how quick, who reads them."
    )


def _topic(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    view = "table" if given.pop("view", "stream") == "table" else "stream"
    params = msgspec.convert({"limit": _RECORDS_SHOWN, **given}, RecordParams, strict=False)
    return frame.page("Topics", params.topic, *topic_page(site, params, view), scripts=("records.js",))


def _tables(site: Site, frame: Frame, _: Given) -> HTMLResponse:
    lead = "What apps remember, as of their last batch. Reading never disturbs them."
    return frame.page("Tables", "Tables", *tables_page(site), lead=lead)


def _table(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    asked = Asked(*(given.pop(name, None) for name in Asked._fields))
    params = msgspec.convert(given, ScanParams, strict=False)
    return frame.page("Tables", params.table, *table_page(site, params, asked), lead=f"A table of {params.app}.")


def _time(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    question = (given.get("table"), given.get("key"), given.get("time"))
    lead = "How far the app is in event time, and what that means for windows."
    return _for_app(site, frame, given, "Time", lambda app: time_page(site, app, *question), lead)


def _groups(site: Site, frame: Frame, _: Given) -> HTMLResponse:
    return frame.page("Groups", "Groups", *groups_page(site), lead="Who reads what, and how far.")


def _group(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    params = msgspec.convert(given, GroupParams, strict=False)
    return frame.page("Groups", params.group, *group_page(site, params))


def _letters(site: Site, frame: Frame, given: Given) -> HTMLResponse:
    lead = "Records that could not be processed, with the reason."
    return _for_app(site, frame, given, "Dead letters", lambda app: letters_page(site, app), lead)


def _alerts(site: Site, frame: Frame, _: Given) -> HTMLResponse:
    return frame.page("Alerts", "Alerts", *alerts_page(site), lead="Be told when a number passes its limit.")


_PAGES: dict[str, Show] = {
    "/": _overview,
    "/topology": _topology,
    "/topics": _topics,
    "/topics/{topic}": _topic,
    "/tables": _tables,
    "/tables/{app}/{table}": _table,
    "/time": _time,
    "/groups": _groups,
    "/groups/{group}": _group,
    "/letters": _letters,
    "/alerts": _alerts,
}
