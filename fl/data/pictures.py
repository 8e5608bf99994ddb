"""Image files as inputs of a model."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MOST_PIXELS = 1 << 24
"""Largest number of pixels of one image file that is decoded."""
IMAGES = (".png", ".jpg", ".jpeg")


def picture(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """float32, of this shape (channels, height, width), in [0, 1]: resized (bicubic), grey for one channel. Raises ValueError."""
    channels, height, width = shape
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"it claims {image.width} x {image.height} pixels")
            grey = image.convert("L" if channels == 1 else "RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as a png or jpg image: {' '.join(str(error).split())}") from error
    if grey.size != (width, height):
        grey = grey.resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(grey, np.float32).reshape(height, width, channels)
    return pixels.transpose(2, 0, 1) / np.float32(255)
