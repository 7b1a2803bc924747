"""Figures of plotly, from what Spark answered, in colours that the colour-blind tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .gather import LATENCY_STEPS
from .times import duration, stamp

if TYPE_CHECKING:
    from pyspark.sql import Row

    from .gather import Gathered

__all__ = ["COLOURS", "charts"]

_BLUE, _ORANGE, _GREEN, _PURPLE = "#2f5f9e", "#d98200", "#117a58", "#8a4a7f"
_SKY, _OLIVE, _RED, _GREY = "#56a9d8", "#8a8200", "#a8201a", "#7d8790"
_SERIES: Final = (_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _OLIVE)

COLOURS: Final = {
    "transfer": _BLUE,
    "basic.publish": _BLUE,
    "basic.deliver": _BLUE,
    "disposition": _ORANGE,
    "basic.ack": _ORANGE,
    "flow": _GREEN,
    "attach": _PURPLE,
    "detach": _PURPLE,
    "begin": _SKY,
    "end": _SKY,
    "open": _OLIVE,
    "close": _OLIVE,
    "": _GREY,
}
"""The colours of frames by name; that of all others is under the empty name."""

_OUTCOMES: Final = {"accepted": _BLUE, "rejected": _RED, "released": _ORANGE, "modified": _PURPLE}
_MOST_NAMES: Final = 7
_MOST_SHADES: Final = 60
_FAINT: Final = "2e"
_MOST_CREDIT_POINTS: Final = 60
_DASHES: Final = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")
_FONT: Final = '"Inter", "Segoe UI", "Helvetica Neue", Arial, "Noto Sans", "DejaVu Sans", sans-serif'
_AXIS: Final = {
    "gridcolor": "#e6e9ed",
    "linecolor": "#aeb6bf",
    "zerolinecolor": "#aeb6bf",
    "ticks": "outside",
    "tickcolor": "#aeb6bf",
    "automargin": True,
}


def charts(found: Gathered) -> dict[str, dict[str, Any]]:
    """The figures by the names of their places; one that would be empty is not there.

    Raises:
        ValueError: plotly does not know what a figure asks for.
    """
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    made = {
        "frames": _frames(found),
        "octets": _octets(found),
        "latency": _latency(found),
        "credit": _credit(found),
    }
    return {name: go.Figure(figure).to_plotly_json() for name, figure in made.items() if figure is not None}


def _layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "font": {"family": _FONT, "size": 13, "color": "#1b1f24"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 60, "r": 28, "t": 12, "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "hoverlabel": {"font": {"family": _FONT, "size": 13}},
        "bargap": 0.08,
        "xaxis": {**_AXIS, **x},
        "yaxis": {**_AXIS, "rangemode": "tozero", **y},
        **more,
    }


def _titled(text: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": text, "standoff": 8, "font": {"size": 13, "color": "#57606a"}}, **more}


def _times(found: Gathered, stretches: Sequence[int]) -> list[str]:
    """The middles of stretches of time, as plotly reads them."""
    began = found.began or 0
    return [stamp(began + stretch * found.width + found.width // 2) for stretch in stretches]


def _frames(found: Gathered) -> dict[str, Any] | None:
    """Frames in each stretch of time, by name, one on top of the other."""
    if not found.over_time:
        return None
    most = list(found.frames)[:_MOST_NAMES]
    counts: dict[str, dict[int, int]] = {name: defaultdict(int) for name in [*most, "others"]}
    for row in found.over_time:
        counts[row["name"] if row["name"] in most else "others"][row["stretch"]] += row["count"]
    spare = [colour for colour in _SERIES if colour not in {COLOURS.get(name) for name in most}]
    bars = []
    for name, by_stretch in counts.items():
        if by_stretch:
            colour = COLOURS.get(name) or (spare.pop(0) if spare and name != "others" else _GREY)
            bars.append(
                {
                    "type": "bar",
                    "name": name,
                    "x": _times(found, list(by_stretch)),
                    "y": list(by_stretch.values()),
                    "width": found.width / 1000,
                    "marker": {"color": colour, "line": {"width": 0}},
                    "hovertemplate": "%{y:,} × " + name + "<extra></extra>",
                }
            )
    return {
        "data": bars,
        "layout": _layout(
            {"type": "date"},
            _titled(f"frames per {duration(found.width / 1e6)}"),
            barmode="stack",
            hovermode="x unified",
        ),
    }


def _octets(found: Gathered) -> dict[str, Any] | None:
    """Octets a second in each stretch of time, each way."""
    if not found.over_time:
        return None
    sums: dict[str, dict[int, int]] = {"c2s": defaultdict(int), "s2c": defaultdict(int)}
    for row in found.over_time:
        if row["direction"] in sums:
            sums[row["direction"]][row["stretch"]] += row["octets"] or 0
    last = max(row["stretch"] for row in found.over_time)
    named = (("c2s", "client to server", _BLUE, "solid"), ("s2c", "server to client", _ORANGE, "dot"))
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": title,
            "x": _times(found, range(last + 1)),
            "y": [sums[way].get(stretch, 0) * 1_000_000 / found.width for stretch in range(last + 1)],
            "line": {"color": colour, "width": 2, "shape": "hvh", "dash": dash},
            "hovertemplate": "%{y:,.3s} octets/s<extra>" + title + "</extra>",
        }
        for way, title, colour, dash in named
    ]
    y = _titled("octets per second", tickformat="~s")
    return {"data": lines, "layout": _layout({"type": "date"}, y, hovermode="x unified")}


def _latency(found: Gathered) -> dict[str, Any] | None:
    """How many deliveries took how long, on a scale of logarithms, with the percentiles as lines."""
    if not found.timings:
        return None
    outcomes = sorted(
        {row["outcome"] for row in found.timings}, key=lambda outcome: (outcome != "accepted", outcome)
    )
    bars = []
    for outcome in outcomes:
        rows = [row for row in found.timings if row["outcome"] == outcome]
        bars.append(
            {
                "type": "bar",
                "name": outcome,
                "x": [(row["step"] + 0.5) / LATENCY_STEPS for row in rows],
                "y": [row["count"] for row in rows],
                "width": 0.94 / LATENCY_STEPS,
                "marker": {"color": _OUTCOMES.get(outcome, _GREY)},
                "customdata": [
                    f"{duration(10 ** (row['step'] / LATENCY_STEPS))} to "
                    f"{duration(10 ** ((row['step'] + 1) / LATENCY_STEPS))}"
                    for row in rows
                ],
                "hovertemplate": "%{y:,} in %{customdata}<extra>" + outcome + "</extra>",
            }
        )
    low = min(row["step"] for row in found.timings) // LATENCY_STEPS
    high = max(row["step"] for row in found.timings) // LATENCY_STEPS + 1
    ticks = [exponent + shift for exponent in range(low, high + 1) for shift in (0, 0.30103, 0.69897)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if high - low > 2:
        ticks = [float(exponent) for exponent in range(low, high + 1)]
    x = _titled(
        "from the first transfer to the settlement",
        range=[low, high],
        tickvals=ticks,
        ticktext=[duration(10**tick) for tick in ticks],
    )
    lines, notes = _percentiles(found)
    more = {"shapes": lines, "annotations": notes, "barmode": "stack", "showlegend": True}
    return {"data": bars, "layout": _layout(x, _titled("deliveries"), **more)}


def _percentiles(found: Gathered) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lines at the percentiles and their names, each at a height of its own."""
    import math

    lines, notes = [], []
    names = (("p50", "half"), ("p90", "90 %"), ("p99", "99 %"))
    for level, (name, title) in enumerate(names):
        seconds = None if found.percentiles is None else found.percentiles[name]
        if seconds is None:
            continue
        at = math.log10(max(seconds, 1e-6))
        lines.append(
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "line": {"color": "#1b1f24", "width": 1, "dash": "dot"},
            }
        )
        notes.append(
            {
                "x": at,
                "y": 0.99 - 0.085 * level,
                "xref": "x",
                "yref": "paper",
                "text": f"{title} {duration(seconds)}",
                "showarrow": False,
                "xanchor": "left",
                "xshift": 4,
                "font": {"size": 12, "color": "#1b1f24"},
                "bgcolor": "rgba(255,255,255,0.85)",
            }
        )
    return lines, notes


def _credit(found: Gathered) -> dict[str, Any] | None:
    """The credit of the busiest links; the longest times in which a link had none are shaded."""
    if not found.credit:
        return None
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in found.credit:
        rows[row["place"]].append(row)
    lines = []
    for place in sorted(rows):
        title, colour = _link(found, place), _SERIES[place % len(_SERIES)]
        line = {"color": colour, "width": 1.8, "dash": _DASHES[place % len(_DASHES)]}
        draw = _band if len(rows[place]) > _MOST_CREDIT_POINTS else _points
        lines += draw(rows[place], title, line)
    shades = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": stamp(wait["began"]),
            "x1": stamp(wait["ended"]),
            "y0": 0,
            "y1": 1,
            "fillcolor": "#d98200",
            "opacity": 0.13,
            "line": {"width": 0},
            "layer": "below",
        }
        for wait in found.waits[:_MOST_SHADES]
        if wait["what"] == "credit" and wait["began"] is not None and wait["ended"] is not None
    ]
    y = _titled("messages that may be sent", tickformat="~s")
    return {"data": lines, "layout": _layout({"type": "date"}, y, shapes=shades, showlegend=True)}


def _points(rows: Sequence[Row], title: str, line: dict[str, Any]) -> list[dict[str, Any]]:
    """Credit before and behind the flows, as a line."""
    points = [
        (stamp(row["time"]), value)
        for row in rows
        for value in dict.fromkeys((row["least"], row["most"]))
        if value is not None
    ]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": title,
            "x": [time for time, _ in points],
            "y": [value for _, value in points],
            "line": line,
            "marker": {"size": 5},
            "hovertemplate": "%{y:,}<extra>" + title + "</extra>",
        }
    ]


def _band(rows: Sequence[Row], title: str, line: dict[str, Any]) -> list[dict[str, Any]]:
    """The least and the most credit of stretches of time, as the edges of a band: a line through all values
    would fill the figure.
    """
    x = [stamp(row["time"]) for row in rows]
    filled = {"fill": "tonexty", "fillcolor": line["color"] + _FAINT}
    edges: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("least", {**line, "width": 0.8}, {}),
        ("most", line, filled),
    )
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": title,
            "legendgroup": title,
            "showlegend": edge == "most",
            "x": x,
            "y": [row[edge] for row in rows],
            "line": drawn,
            "hovertemplate": f"{edge} %{{y:,}}<extra>{title}</extra>",
            **more,
        }
        for edge, drawn, more in edges
    ]


def _link(found: Gathered, place: int) -> str:
    """What a link is called in a legend: its name, shortened, and who sends."""
    link = found.links[place]
    name = link["link"] or "?"
    shown = name if len(name) <= 32 else f"{name[:31]}…"
    return f"{shown} ({link['sender']} sends)".replace("<", "‹").replace(">", "›")
