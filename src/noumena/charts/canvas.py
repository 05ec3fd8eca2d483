"""Canvas: the palette, the axes and the words that all charts share.

matplotlib is imported when something is drawn, through its object-oriented interface: no pyplot, no display, nothing
global. An artist's ``gid`` says what it shows, ``"kind"`` or ``"kind: a sentence"``; pages turn it into a class and a
hint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from noumena.checks import require

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PALETTE = {
    "ink": "#1d2430", "soft": "#5c6575", "line": "#dfe2e8", "tile": "#eef0f3", "paper": "#ffffff",
    "accent": "#1f5a94", "heat": "#6ea2d6", "good": "#217346", "bad": "#b3342b", "open": "#8a5a00",
    "low": "#2a55b5", "middle": "#b8327a", "high": "#c96a00",
    "hue-1": "#1f5a94", "hue-2": "#c2500a", "hue-3": "#217346", "hue-4": "#8a3aa8",
    "hue-5": "#0d7f8c", "hue-6": "#a8326e", "hue-7": "#7a5c12", "hue-8": "#4b4fc4",
}  # fmt: skip
"""Colours by name, told apart by those who see fewer of them; a page has a lighter set of the same names."""
INK, SOFT, LINE, TILE, PAPER, ACCENT, HEAT = (PALETTE[name] for name in list(PALETTE)[:7])
GOOD, BAD, OPEN = (PALETTE[name] for name in ("good", "bad", "open"))
HUES = tuple(PALETTE[f"hue-{k}"] for k in range(1, 9))
MARKERS = ("o", "s", "^", "D", "v", "h", ">", "<")
"""Hollow or filled they can be told apart."""
RAMP = ("low", "middle", "high")
"""From small to large."""
ANSWERS = {"identified": GOOD, "not identified": BAD, "open": OPEN}
"""The three answers of a certificate and their colours."""
STYLE: dict[Any, Any] = {
    "text.parse_math": False, "text.color": SOFT, "font.size": 12, "axes.labelcolor": SOFT, "axes.edgecolor": LINE,
    "axes.labelsize": 12, "axes.spines.left": False, "axes.spines.right": False, "axes.spines.top": False,
    "axes.spines.bottom": False, "xtick.color": SOFT, "ytick.color": SOFT, "xtick.major.size": 0,
    "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0, "xtick.labelsize": 12, "ytick.labelsize": 12,
    "grid.color": LINE, "grid.linewidth": 1, "axes.axisbelow": True, "axes.labelpad": 6,
    "xtick.major.pad": 6, "ytick.major.pad": 6, "legend.frameon": False, "legend.fontsize": 12,
    "lines.solid_capstyle": "round", "lines.solid_joinstyle": "round", "figure.facecolor": PAPER,
    "path.simplify": False, "axes.facecolor": PAPER, "axes.titlesize": 13, "axes.titlecolor": INK,
    "axes.titleweight": 700,
}  # fmt: skip
_NARROW, _BROAD = frozenset("fijlrtI1.,:;'|()[] "), frozenset("mwMW…→=+<>")
F = TypeVar("F", bound=Callable[..., Any])


# ---- axes ----------------------------------------------------------------------------------------------------------


def styled(draw: F) -> F:
    """A chart drawn in the house's style, with no formula read into a name."""

    @wraps(draw)
    def call(*args: Any, **kwargs: Any) -> Any:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return cast(F, call)


def axes(ax: Axes | None, wide: float, tall: float) -> Axes:
    """The axes that were given, or those of a new figure, so many points wide and tall.

    >>> axes(None, 440, 290).figure.get_size_inches().round(2).tolist()
    [6.11, 4.03]
    """
    if ax is not None:
        require(hasattr(ax, "add_artist"), "ax must be axes of matplotlib.", type(ax).__name__)
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=(wide / 72, tall / 72), layout="constrained").add_subplot()


def told(artist: Artist, kind: str, sentence: str = "") -> Artist:
    """An artist that says what it shows, and what a pointer resting on it reads."""
    artist.set_gid(f"{kind}: {clean(sentence)}" if sentence else kind)
    return artist


def numbered(ax: Axes, which: str, *, log: bool = False) -> None:
    """Round numbers on the axis ``x`` or ``y``, with a quiet grid."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = ax.xaxis if which == "x" else ax.yaxis
    if log:
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    axis.set_major_locator(LogLocator(numticks=6) if log else MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))
    ax.grid(axis="x" if which == "x" else "y")


def named(ax: Axes, which: str, places: Sequence[float], names: Sequence[str], **look: Any) -> None:
    """Names at their places on the axis ``x`` or ``y``."""
    words = ["\n".join(map(clean, name.split("\n"))) for name in names]
    (ax.set_xticks if which == "x" else ax.set_yticks)(places, words, **look)


def legend(ax: Axes, handles: Sequence[Any], names: Sequence[str], *, wide: float, below: bool = True) -> None:
    """The handles' names, in as many columns as fit: under the figure, or inside axes that were given."""
    room = max(extent(name, 12) for name in names) + 40
    columns = min(len(names), max(1, int(wide // room)))
    look = {"ncols": columns, "handlelength": 1.6, "columnspacing": 1.2, "borderpad": 0.5}
    words = [clean(name) for name in names]
    if below:
        cast(Any, ax.figure).legend(handles, words, loc="outside lower left", **look)
    else:
        ax.legend(handles, words, **look | {"ncols": 1})


def legend_height(names: Sequence[str], wide: float) -> float:
    """How tall the legend of some names is under a figure so wide."""
    room = max((extent(name, 12) for name in names), default=0.0) + 40
    return 18.0 * -(-len(names) // max(1, int(wide // room)))


# ---- colours and words ---------------------------------------------------------------------------------------------


def shade(share: float) -> str:
    """The colour of a share in [0, 1], between those of ``RAMP``.

    >>> shade(0), shade(0.5), shade(1) == PALETTE["high"]
    ('#2a55b5', '#b8327a', True)
    """
    ends = RAMP[:2] if share < 0.5 else RAMP[1:]
    part = 2 * share - (share >= 0.5)
    low, high = ([int(PALETTE[name][k : k + 2], 16) for k in (1, 3, 5)] for name in ends)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(low, high, strict=True))


def clean(text: str) -> str:
    """Text with spaces for its control characters.

    >>> clean("a\\x00b")
    'a b'
    """
    return "".join(c if c.isprintable() else " " for c in str(text))


def shorten(text: str, most: int = 14) -> str:
    """Text of at most ``most`` characters, an ellipsis where it was cut.

    >>> shorten("temperature of the sea", 12)
    'temperature…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def extent(text: str, size: float) -> float:
    """Roughly how wide a text is set at a font size.

    >>> extent("ill", 10) < extent("abc", 10) < extent("www", 10)
    True
    """
    broad = sum(c in _BROAD or ord(c) > 0x2E7F for c in text)
    narrow = sum(c in _NARROW for c in text)
    return size * (0.62 * (len(text) - broad - narrow) + 0.95 * broad + 0.4 * narrow)


def fitting(words: str, room: float, size: float = 12) -> str:
    """Words shortened until they fit into ``room``.

    >>> fitting("dependency sparsity", 80), fitting("dependency", 80)
    ('dependenc…', 'dependency')
    """
    lengths = range(len(words), 0, -1)
    return next((s for n in lengths if extent(s := shorten(words, n), size) <= room), "")


def tick_label(value: float) -> str:
    """A short number for an axis.

    >>> tick_label(0.2), tick_label(20000), tick_label(-3), tick_label(1e-5)
    ('0.2', '20k', '−3', '1e−5')
    """
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        short = f"{float(mantissa):g}e{int(exponent)}"
    elif abs(value) >= 1e4:
        short = f"{value / 1000:g}k"
    else:
        short = f"{value:g}"
    return short.replace("-", "−")
