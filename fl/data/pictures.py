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
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"it claims {image.width} x {image.height} pixels")
            image.load()
            return pixels_of(image, shape)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as a png or jpg image: {' '.join(str(error).split())}") from error


def pixels_of(image: Image.Image, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The same of an image that is there already."""
    channels, height, width = shape
    found = image.convert("L" if channels == 1 else "RGB")
    if found.size != (width, height):
        found = found.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(found, np.float32).reshape(height, width, channels).transpose(2, 0, 1) / np.float32(255)
