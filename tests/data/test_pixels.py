"""From image files to pixels."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from feddiv.data.images.pixels import image_suffixes, pixels, pixels_and_reach


def test_an_image_is_stretched_to_the_size(tmp_path: Path) -> None:
    halves = np.zeros((4, 40, 3), np.uint8)
    halves[:, 20:] = 255
    Image.fromarray(halves).save(tmp_path / "x.png")
    found = pixels(tmp_path / "x.png", 8, 8, 3)
    assert found.shape == (8, 8, 3)
    assert (found[:, :3] == 0).all()
    assert (found[:, 5:] == 255).all()
    assert np.array_equal(pixels((tmp_path / "x.png").read_bytes(), 8, 8, 3), found)


def test_an_image_of_the_right_size_stays_as_it_is(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "x.png")
    assert np.array_equal(pixels(tmp_path / "x.png", 8, 8, 3), noise)


def test_exif_turns_an_image_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 8), "black")
    image.paste((255, 255, 255), (0, 0, 8, 4))  # white above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "x.png", exif=exif)
    found = pixels(tmp_path / "x.png", 8, 8, 1)
    assert (found[:4] == 0).all()
    assert (found[4:] == 255).all()


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("L", 7, [7, 7, 7]),
        ("RGBA", (10, 20, 30, 0), [255, 255, 255]),  # transparent is white
        ("RGBA", (10, 20, 30, 255), [10, 20, 30]),
        ("LA", (9, 0), [255, 255, 255]),
        ("I;16", 0x4007, [0x40, 0x40, 0x40]),
        ("1", 1, [255, 255, 255]),
    ],
)
def test_modes(tmp_path: Path, mode: str, colour: object, expected: list[int]) -> None:
    file = tmp_path / "x.png"
    Image.new(mode, (8, 8), colour).save(file)  # type: ignore[arg-type]
    assert pixels(file, 4, 4, 3)[2, 2].tolist() == expected


def test_a_palette_with_a_transparent_entry(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((0, 0), 1)
    image.save(tmp_path / "x.png", transparency=0)
    found = pixels(tmp_path / "x.png", 8, 8, 3)
    assert found[0, 0].tolist() == [40, 50, 60]
    assert found[4, 4].tolist() == [255, 255, 255]


def test_cmyk(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "x.tif")
    assert pixels(tmp_path / "x.tif", 4, 4, 3)[0, 0].tolist() == [255, 0, 0]


def test_a_large_jpeg_is_near_what_full_decoding_gives(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 800).astype(np.uint8)
    Image.fromarray(np.tile(ramp, (800, 1))).save(tmp_path / "x.jpg", quality=95)
    found = pixels(tmp_path / "x.jpg", 16, 16, 1)[..., 0].astype(int)
    exact = np.asarray(Image.open(tmp_path / "x.jpg").resize((16, 16), Image.Resampling.BILINEAR))
    assert np.abs(found - exact).max() <= 3


def test_twelve_bits_keep_their_upper_eight(tmp_path: Path) -> None:
    grey = np.full((8, 8), 0x7AB, dtype=np.uint16)
    header = Image.fromarray(grey)
    header.save(tmp_path / "16.tif")
    assert pixels_and_reach(tmp_path / "16.tif", 8, 8, 1)[0].max() == 0x7
    # Two values of twelve bits in three bytes, as TIFF packs them.
    packed = bytes([0x7A, 0xB7, 0xAB]) * 32
    entries = [
        (256, 3, 1, 8), (257, 3, 1, 8), (258, 3, 1, 12), (259, 3, 1, 1), (262, 3, 1, 1),
        (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, 8), (279, 4, 1, len(packed)),
    ]  # fmt: skip
    tags = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    head = struct.pack("<2sHI", b"II", 42, 8 + len(packed))
    content = head + packed + struct.pack("<H", len(entries)) + tags + bytes(4)
    found, reach = pixels_and_reach(content, 8, 8, 1)
    assert (found == 0x7A).all()
    assert reach == pytest.approx(0x7AB / 0xFFF)


def test_only_raster_formats_are_opened(tmp_path: Path) -> None:
    assert not {".eps", ".ps", ".h5", ".mpg", ".emf", ".wmf"} & image_suffixes()
    Image.new("RGB", (8, 8)).save(tmp_path / "x.eps")
    (tmp_path / "x.eps").rename(tmp_path / "x.png")
    with pytest.raises(UnidentifiedImageError):
        pixels(tmp_path / "x.png", 4, 4, 3)


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("F", (8, 8), 0.5).save(tmp_path / "x.tif")
    with pytest.raises(ValueError, match="floating-point"):
        pixels(tmp_path / "x.tif", 4, 4, 3)
    Image.new("I", (8, 8), 5).save(tmp_path / "x.tif")
    with pytest.raises(ValueError, match="32-bit integers of unknown scale"):
        pixels(tmp_path / "x.tif", 4, 4, 3)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="not a file"):
        pixels(tmp_path / "pipe.png", 4, 4, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    Image.new("L", (20, 20)).save(tmp_path / "bomb.png")
    with pytest.raises(Image.DecompressionBombError):
        pixels(tmp_path / "bomb.png", 4, 4, 3)


def test_suffixes_are_of_formats_that_can_be_read() -> None:
    assert {".png", ".jpg", ".jpeg", ".tif", ".bmp", ".webp"} <= image_suffixes()
    assert not {".pdf", ".txt", ".csv", ".npz"} & image_suffixes()
