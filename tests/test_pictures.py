"""Image files of 16 bits, as scanners write them, keep what they show; what has no range that is known is refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cloister.fl.data.pictures import picture, pixels_of


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_of_16_bits_is_not_cut_off(channels: int, tmp_path: Path) -> None:
    values = np.linspace(0, 39922, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "scan.png")
    found = picture(tmp_path / "scan.png", (channels, 8, 8))
    assert found.dtype == np.float32
    assert found.shape == (channels, 8, 8)
    assert np.abs(found * 65535 - values).max() < 0.01


def test_it_is_resized_as_other_images_are(tmp_path: Path) -> None:
    eight = (np.indices((16, 16)).sum(0) * 8).astype(np.uint8)
    Image.fromarray(eight).save(tmp_path / "8.png")
    Image.fromarray(eight.astype(np.uint16) * 257).save(tmp_path / "16.png")
    one, other = (picture(tmp_path / f"{bits}.png", (1, 8, 8)) for bits in (8, 16))
    assert np.abs(one - other).max() < 1 / 255
    assert other.min() >= 0
    assert other.max() <= 1


@pytest.mark.parametrize(
    ("values", "words"),
    [(np.full((4, 4), 0.5, np.float32), "it has decimals"), (np.full((4, 4), -3, np.int32), "it has values from -3 to -3")],
)
def test_values_of_which_nobody_knows_the_range_are_refused(values: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pixels_of(Image.fromarray(values), (1, 4, 4))
