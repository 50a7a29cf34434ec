"""The login page; its style is inline, since static files also require the token."""

from __future__ import annotations

import base64
from hashlib import sha256

from starlette.responses import HTMLResponse

from millstream.serve.html import Markup, element, page_text

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;display:grid;place-items:center;"
    "min-height:90vh;margin:0}form{display:grid;gap:.75rem;width:min(22rem,86vw)}"
    "input,button{font:inherit;padding:.6rem .7rem;border-radius:.4rem;border:1px solid #8888}"
    "button{background:#0f766e;color:#fff;border:0}p{margin:0}[role=alert]{color:#b91c1c}"
)
STYLE_HASH = "sha256-" + base64.b64encode(sha256(_STYLE.encode()).digest()).decode()


def login_page(csrf: str, problem: str = "", status: int = 401) -> HTMLResponse:
    """Return the form; its header names the style that the content security policy must allow."""
    form = element(
        "form",
        element("h1", "Millstream"),
        element("p", "This dashboard requires a token."),
        element("input", name="user", value="millstream", autocomplete="username", hidden=True),
        element("label", "Token", for_="token"),
        element("input", id="token", name="token", type="password", autocomplete="current-password", required=True),
        element("input", name="csrf", type="hidden", value=csrf),
        element("p", problem, role="alert") if problem else None,
        element("button", "Log in", type="submit"),
        element("p", "The server printed the path of the token file when it started, and a link that logs in once."),
        method="post",
        action="/login",
    )
    head = (element("title", "Millstream: token"), element("style", Markup(_STYLE)))
    return HTMLResponse(page_text(head, element("main", form)), status, headers={"x-style": STYLE_HASH})
