"""Image files as inputs of a model."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MOST_PIXELS = 1 << 24
"""Largest number of pixels of one image file that is decoded."""
MOST_16 = (1 << 16) - 1
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
    """The same of an image that is there already. Grey of 16 bits is over 65535; transparency is dropped. Raises ValueError for
    values whose range no file says.
    """
    channels, height, width = shape
    if image.mode.startswith("I;16") or image.mode == "I":  # by release of Pillow, which would cut off at 255
        return _of_16_bits(image, shape)
    if image.mode == "F":
        raise ValueError("it has decimals, of which nothing says from where to where they go: save it with 8 or 16 bits")
    found = image.convert("L" if channels == 1 else "RGB")
    if found.size != (width, height):
        found = found.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(found, np.float32).reshape(height, width, channels).transpose(2, 0, 1) / np.float32(255)


def _of_16_bits(image: Image.Image, shape: tuple[int, ...]) -> NDArray[np.float32]:
    channels, height, width = shape
    values = np.asarray(image, np.float32)
    if values.min() < 0 or values.max() > MOST_16:
        raise ValueError(f"it has values from {values.min():g} to {values.max():g}: save it with 8 or 16 bits")
    found = Image.fromarray(values / np.float32(MOST_16))  # of decimals, which lose nothing where they are resized
    if found.size != (width, height):
        found = found.resize((width, height), Image.Resampling.BICUBIC)
    grey = np.clip(np.asarray(found, np.float32), 0, 1)
    return np.broadcast_to(grey, (channels, height, width)).copy()
