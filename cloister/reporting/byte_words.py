"""Numbers of bytes in words."""


def byte_words(count: float) -> str:
    """A number of bytes in words: 1500 is "1.5 kB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 99.95 else f"{count:.3g} {unit}"
