from __future__ import annotations

import json
import re
import urllib.request
from itertools import combinations
from pathlib import Path
from typing import Any

from millstream.metrics.prometheus import MetricsServer, grafana_dashboard, metrics_text

DASHBOARD: dict[str, Any] = json.loads(grafana_dashboard())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
UNITS = {"bool_yes_no", "short", "s", "cps", "cpm", "decbytes"}  # identifiers of Grafana
_NAME = re.compile(r"\bmillstream_\w+")
_GROUPS = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_MATCHERS = re.compile(r"[{,] ?(\w+)=~?\"")


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def exported(data_dir: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of all metrics, and the labels of those that have a value."""
    names: set[str] = set()
    labels: dict[str, set[str]] = {}
    for line in metrics_text(data_dir).splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
        elif not line.startswith("#"):
            name, _, pairs = line.partition("{")
            labels.setdefault(name, set()).update(re.findall(r"(\w+)=\"", pairs))
    return names, labels


def test_every_metric_and_label_of_the_dashboard_is_exported(data_dir: Path) -> None:
    names, labels = exported(data_dir)
    for expression in expressions():
        used = _NAME.findall(expression)
        assert used, expression
        assert set(used) <= names, expression
        wanted = set(_MATCHERS.findall(expression))
        wanted |= {label.strip() for group in _GROUPS.findall(expression) for label in group.split(",")}
        known = set().union(*(labels.get(name, wanted) for name in used))  # lag is only exported if there is some
        assert wanted <= known, expression


def test_every_metric_is_on_the_dashboard(data_dir: Path) -> None:
    names, _ = exported(data_dir)
    shown = {name for expression in expressions() for name in _NAME.findall(expression)}
    assert names - shown == {"millstream_latency_seconds_sum", "millstream_latency_seconds_count"}


def test_every_panel_has_a_title_a_description_and_a_unit() -> None:
    assert len(PANELS) >= 10
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"])
    assert len({panel["title"] for panel in PANELS}) == len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_panels_do_not_overlap_on_the_grid_of_24_columns() -> None:
    boxes = [panel["gridPos"] for panel in PANELS]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    for left, right in combinations(boxes, 2):
        is_beside = left["x"] + left["w"] <= right["x"] or right["x"] + right["w"] <= left["x"]
        is_below = left["y"] + left["h"] <= right["y"] or right["y"] + right["h"] <= left["y"]
        assert is_beside or is_below


def test_the_dashboard_depends_on_no_data_source_of_its_author() -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    sources = [panel["datasource"] for panel in PANELS]
    sources += [target["datasource"] for panel in PANELS for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert "id" not in DASHBOARD


def test_the_dashboard_is_served_beside_the_metrics(data_dir: Path) -> None:
    server = MetricsServer(data_dir, 0)
    with urllib.request.urlopen(server.url.replace("/metrics", "/grafana.json"), timeout=30) as response:
        assert response.headers["Content-Type"] == "application/json"
        assert json.load(response) == DASHBOARD
    server.close()
