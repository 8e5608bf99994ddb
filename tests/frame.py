"""What `data.from_dataframe` takes, where there is no pandas."""


class Frame(dict):
    """Columns by name."""

    @property
    def columns(self):
        return list(self)
