"""A figure of matplotlib that a notebook shows by itself."""

from io import BytesIO

from matplotlib.figure import Figure


class Picture(Figure):
    """A notebook shows plain figures only after `%matplotlib inline`, or pyplot's import, has taught it to."""

    def _repr_png_(self) -> bytes:
        shown = BytesIO()
        self.savefig(shown, format="png")
        return shown.getvalue()
