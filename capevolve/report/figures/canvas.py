"""A drawing surface whose SVG is the same for the same picture, small, and fit to stand inside a page.

Matplotlib's object-oriented interface only: nothing here touches a display, a global figure or a user's
style file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import lru_cache
from html import escape
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capevolve.report.wording import shorten

BLUE, VERMILLION, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#b87700"
"""Okabe and Ito (2008), told apart with any colour vision; the orange is darkened for contrast on white."""
INK, MUTED, FAINT = "#1f2933", "#66727f", "#d8dee4"

WIDTH = 8.4
"""Inches."""

_STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "font.family": ["sans-serif"],
    "text.color": INK,
    "text.parse_math": False,  # a task id may hold dollar signs
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
}

_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def draw(key: str, height: float, label: str, paint: Callable[[Figure], None]) -> str:
    """Returns a picture as an `<svg>` element.

    Args:
        key: Sets its ids apart from those of other pictures on the page.
        height: Inches.
        label: What it shows, for those who cannot see it.
        paint: Paints on an empty figure.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: dict[Any, Any] = {**_STYLE, "svg.hashsalt": key}
        matplotlib.rcParams.update(settings)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=_METADATA)
    return _embed(buffer.getvalue(), key, label)


_TAG = re.compile(r"<[^<>]+>")
_ID = re.compile(r'(\bid="|url\(#|href="#)')
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_FRAME = re.compile(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)


def _embed(svg: str, key: str, label: str) -> str:
    """Leaves out what a page has no use for, and makes ids unique on it.

    Only tags are rewritten: matplotlib escapes `<` and `>` in texts, so none can look like one.
    """
    body = _FRAME.sub("", svg[svg.index("<svg") :]).strip()
    opening, _, rest = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', opening)
    head = f"<svg {_NAMESPACES} {box[0] if box else ''}"
    rest = _TAG.sub(lambda tag: _rewrite(tag.group(), key), rest)
    return f'{head} role="img" aria-label="{escape(label)}">{rest}'


def _rewrite(tag: str, key: str) -> str:
    named = _ID.sub(lambda match: f"{match.group()}{key}-", tag)
    return _DECIMALS.sub(lambda match: f"{float(match.group()):.2f}", named)


def fit_label(text: str, limit: int = 28) -> str:
    """Returns a clean text as a label: short, and only with characters that the font has."""
    known = _known_characters()
    return "".join(char if ord(char) in known else "□" for char in shorten(text, limit))


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())


def add_grid(axes: Axes, axis: str) -> None:
    """Draws faint lines across one axis."""
    axes.grid(visible=True, axis="x" if axis == "x" else "y", color=FAINT, linewidth=0.7)
