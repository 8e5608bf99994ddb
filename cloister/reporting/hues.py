"""Colours of figures: names until the browser shows them, so that one figure fits a light and a dark page.

matplotlib draws with placeholder colours, and the finished SVG refers to the style sheet's variables instead.
"""

HUES = 8
INK, MUTED, GRID, SURFACE, FIRST_HUE = 1, 2, 3, 4, 16


def colour(slot: int) -> str:
    """The placeholder colour that becomes the style sheet's variable of `slot`."""
    return f"#0102{slot:02x}"


def hue(index: int | None) -> str:
    """The placeholder of the index-th group colour (eight, then again from the first), or of plain ink for None."""
    return colour(INK if index is None else FIRST_HUE + index % HUES)
