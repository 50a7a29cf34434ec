"""A topology as an SVG picture that needs no style sheet: the drawing of the dashboard, without metrics."""

from __future__ import annotations

from millstream.errors import MillstreamError
from millstream.plan.describe import view
from millstream.plan.node import Node, inputs
from millstream.plan.topology import Draft, Plan
from millstream.serve.api.topology import plan_graph
from millstream.serve.html import Markup, element
from millstream.serve.pages.drawing import arrange
from millstream.serve.pages.graph import graph_svg

_MAX_WIDTH, _MAX_HEIGHT = 900, 480  # of a cell's output
STYLE = """
svg { background: #f4f6f6; border-radius: 8px; max-width: 100%; height: auto; }
text { font-family: system-ui, "Segoe UI", "Noto Sans", sans-serif; font-size: 13.5px; fill: #16211f; }
.stage rect { fill: #eaf1f0; stroke: #d9e0de; }
.stage-title { fill: #56645f; font-weight: 600; paint-order: stroke; stroke: #eaf1f0; stroke-width: 5px; }
.node > rect, .node > path { fill: #ffffff; stroke: #56645f; stroke-width: 1.2; }
.node.topic > path { fill: #fdf0d5; stroke: #d97706; }
.node.table > path { fill: #dcf5e4; stroke: #15803d; }
.node.table > .rim { fill: none; }
.node .verb { fill: #56645f; font-size: 12.5px; }
.node .name { font-weight: 650; }
.edge path { fill: none; stroke: #56645f; stroke-width: 1.4; stroke-linejoin: round; }
.edge path.wide { stroke: none; }
.edge.rekeys path { stroke: #0f766e; stroke-dasharray: 6 4; }
.edge.rekeys path.wide { stroke: none; }
"""


def draft_svg(draft: Draft, node: Node | None = None) -> str | None:
    """Draw a topology as defined so far, or only what ``node`` depends on; None if there is nothing to draw yet."""
    nodes = draft.nodes if node is None else _upstream(draft, node)
    try:
        return plan_svg(draft.app, Plan.of(Draft(draft.app, dict.fromkeys(nodes)))) if nodes else None
    except MillstreamError:
        return None  # not a whole topology yet: start() reports what it lacks, and the text is shown here


def plan_svg(app: str, plan: Plan) -> str:
    """Draw a plan."""
    graph = plan_graph(app, view(plan))
    drawings = [arrange(graph, "across"), arrange(graph, "down")]
    drawing = max(drawings, key=lambda drawing: drawing.scale(_MAX_WIDTH, _MAX_HEIGHT))
    return graph_svg(graph, drawing, "graph", element("style", Markup(STYLE)))


def _upstream(draft: Draft, node: Node) -> list[Node]:
    """Return a node and everything that it depends on, in the order of definition."""
    needed, waiting = {node}, [node]
    while waiting:
        new = [source for source in inputs(waiting.pop()) if source not in needed]
        needed.update(new)
        waiting += new
    return [step for step in draft.nodes if step in needed]
