"""Draw stacks as a flame graph: the width of a frame is its share of the samples, its callers are below it."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from millstream.task.profiler import USER_MARK

_WIDTH, _ROW, _TOP = 1200.0, 18, 40
_MIN_WIDTH = 0.5
_CHARACTER_WIDTH = 6.6
_FONT = 'font-family="monospace" font-size="11"'
_USER, _OWN, _LIBRARY = "#f2a65a", "#8fb3d9", "#d5d5d5"


class _Frame:
    """A frame and the frames that it called, with the samples in which they were seen."""

    __slots__ = ("called", "samples")

    def __init__(self) -> None:
        self.samples = 0
        self.called: dict[str, _Frame] = {}


def flame_graph(stacks: Mapping[str, int], title: str) -> str:
    """Return a flame graph as SVG; a tooltip shows the full name and share of each frame."""
    root = _Frame()
    for stack, count in sorted(stacks.items()):
        root.samples += count
        frame = root
        for label in stack.split(";"):
            frame = frame.called.setdefault(label, _Frame())
            frame.samples += count
    depth = max((stack.count(";") + 1 for stack in stacks), default=0)
    height = _TOP + (depth + 1) * _ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="22" font-size="15">{escape(title)}</text>',
    ]
    _draw(lines, root, 0.0, height - _ROW, _WIDTH / max(root.samples, 1), root.samples)
    return "\n".join([*lines, "</svg>", ""])


def _draw(lines: list[str], parent: _Frame, left: float, y: int, per_sample: float, all_samples: int) -> None:
    for label, frame in parent.called.items():
        width = frame.samples * per_sample
        if width >= _MIN_WIDTH:
            share = f"{label}: {frame.samples} samples, {100 * frame.samples / all_samples:.1f} %"
            shown = (
                label if len(label) * _CHARACTER_WIDTH < width else label[: max(0, int(width / _CHARACTER_WIDTH) - 1)]
            )
            lines.append(
                f'<g><title>{escape(share)}</title><rect x="{left:.1f}" y="{y}" width="{width:.1f}" '
                f'height="{_ROW - 1}" fill="{_color(label)}" rx="1"/>'
                f'<text x="{left + 3:.1f}" y="{y + 13}">{escape(shown)}</text></g>'
            )
            _draw(lines, frame, left, y - _ROW, per_sample, all_samples)
        left += width


def _color(label: str) -> str:
    if label.endswith(USER_MARK):
        return _USER
    return _OWN if label.startswith("millstream/") else _LIBRARY
