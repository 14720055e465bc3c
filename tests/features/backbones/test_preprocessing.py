from __future__ import annotations

import contextlib
import hashlib
import io
import os
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data.images import decode
from ltgcd.features.backbones import preprocessing
from ltgcd.features.backbones.preprocessing import Preprocessing


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.RandomState(seed).randint(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def slow_resize(image: Image.Image, shorter: int) -> Image.Image:
    """torchvision's Resize, rewritten: the shorter side becomes `shorter`, the longer is rounded down."""
    short, long = sorted(image.size)
    longer = int(shorter * long / short)
    size = (shorter, longer) if image.width <= image.height else (longer, shorter)
    return image.resize(size, Image.Resampling.BICUBIC)


def slow_centre_crop(image: Image.Image, size: int) -> np.ndarray:
    left, top = round((image.width - size) / 2.0), round((image.height - size) / 2.0)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def slow_train_view(image: Image.Image, size: int, seed: int, item_id: str, view: int) -> np.ndarray:
    digest = hashlib.blake2b(f"1|{seed}|{view}|{item_id}".encode(), digest_size=24).digest()
    x, y, mirror = struct.unpack("<3Q", digest)
    left = x * (image.width - size + 1) // 2**64
    top = y * (image.height - size + 1) // 2**64
    crop = image.crop((left, top, left + size, top + size))
    if mirror >= 2**63:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(crop)


@pytest.mark.parametrize(
    ("width", "height"), [(32, 32), (300, 200), (200, 301), (64, 65), (1000, 37), (256, 256), (1, 1)]
)
@pytest.mark.parametrize("size", [224, 128])
def test_views_equal_a_plain_implementation(width: int, height: int, size: int) -> None:
    image = noise(width, height)
    resized = slow_resize(image, {224: 256, 128: 146}[size])

    views = Preprocessing(image_size=size, seed=7).views(encode(image), "cat/3.png", 3)

    assert views.shape == (4, size, size, 3)
    np.testing.assert_array_equal(views[0], slow_centre_crop(resized, size))
    for view in (1, 2, 3):
        np.testing.assert_array_equal(views[view], slow_train_view(resized, size, 7, "cat/3.png", view))


def test_sizes() -> None:
    assert Preprocessing().resize == 256
    assert Preprocessing(image_size=128).resize == 146
    assert Preprocessing(image_size=260).resize == 297
    assert Preprocessing().resized(500, 333) == (384, 256)
    assert Preprocessing().resized(333, 500) == (256, 384)
    # Half a pixel goes to the even neighbour, as in torchvision: (9 - 4) / 2 -> 2, (11 - 4) / 2 -> 4.
    assert Preprocessing(image_size=4).window(9, 11, "", 0) == (2, 4, False)


def test_test_view_of_an_image_that_needs_no_resizing_is_its_middle() -> None:
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    view = Preprocessing(image_size=4, crop_pct=0.5).views(encode(Image.fromarray(pixels)), "a", 0)
    np.testing.assert_array_equal(view[0], pixels[2:6, 2:6])


def test_training_view_is_a_crop_possibly_mirrored() -> None:
    pixels = np.random.RandomState(1).randint(0, 256, (8, 8, 3), dtype=np.uint8)
    views = Preprocessing(image_size=4, crop_pct=0.5).views(encode(Image.fromarray(pixels)), "a", 20)
    crops = [pixels[y : y + 4, x : x + 4] for y in range(5) for x in range(5)]
    crops += [crop[:, ::-1] for crop in crops]
    for view in views:
        assert any(np.array_equal(view, crop) for crop in crops)


def test_all_offsets_are_reached_evenly_and_half_the_views_are_mirrored() -> None:
    recipe = Preprocessing(image_size=4)
    windows = [recipe.window(9, 7, f"item {i}", 1 + i % 2) for i in range(6000)]
    lefts, tops, mirrors = (np.array(values) for values in zip(*windows, strict=True))
    assert np.all(np.abs(np.bincount(lefts, minlength=6) - 1000) < 130)
    assert np.all(np.abs(np.bincount(tops, minlength=4) - 1500) < 150)
    assert abs(mirrors.mean() - 0.5) < 0.03
    assert abs(np.corrcoef(lefts, mirrors)[0, 1]) < 0.05


def test_a_view_depends_on_seed_id_and_number_only() -> None:
    blobs = [encode(noise(40, 30, seed)) for seed in range(6)]
    ids = [f"b{i}" for i in range(6)]
    recipe = Preprocessing(image_size=16)

    there, _ = recipe.load_views(blobs, ids, 2)
    back, _ = recipe.load_views(blobs[::-1], ids[::-1], 3)
    np.testing.assert_array_equal(there, back[::-1, :3])

    same = [blobs[0]] * 2
    views, _ = recipe.load_views(same, ["x", "y"], 2)
    np.testing.assert_array_equal(views[0, 0], views[1, 0])
    assert not np.array_equal(views[0, 1], views[1, 1])
    assert not np.array_equal(views[0, 1], views[0, 2])
    other_seed, _ = Preprocessing(image_size=16, seed=1).load_views(same, ["x", "y"], 2)
    np.testing.assert_array_equal(views[:, 0], other_seed[:, 0])
    assert not np.array_equal(views[0, 1], other_seed[0, 1])


def test_views_are_the_same_in_another_process() -> None:
    code = (
        "import hashlib, io, numpy as np; from PIL import Image\n"
        "from ltgcd.features.backbones.preprocessing import Preprocessing\n"
        "pixels = np.random.RandomState(0).randint(0, 256, (37, 50, 3), dtype=np.uint8)\n"
        "file = io.BytesIO(); Image.fromarray(pixels).save(file, 'PNG')\n"
        "views = Preprocessing(image_size=32).views(file.getvalue(), 'ünï/1.png', 4)\n"
        "print(hashlib.sha256(views.tobytes()).hexdigest())"
    )
    env = {**os.environ, "PYTHONHASHSEED": "99"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    views = Preprocessing(image_size=32).views(encode(noise(50, 37)), "ünï/1.png", 4)
    assert out.stdout.strip() == hashlib.sha256(views.tobytes()).hexdigest()


def test_windows_are_pinned() -> None:
    """Golden numbers: a change here silently breaks every cache, so it must raise ALGORITHM."""
    recipe = Preprocessing()
    assert preprocessing.ALGORITHM == 1
    assert [recipe.window(384, 256, "images/0001.jpg", view) for view in range(4)] == [
        (80, 16, False),
        (63, 15, False),
        (49, 18, True),
        (14, 15, True),
    ]


def test_ids_need_not_be_valid_unicode() -> None:
    Preprocessing(image_size=8).views(encode(noise(9, 9)), "caf\udce9.png", 1)


@pytest.mark.parametrize("width_first", [True, False])
def test_a_thread_of_an_image_costs_no_memory(width_first: bool) -> None:
    size = (5000, 1) if width_first else (1, 5000)
    views = Preprocessing().views(encode(noise(*size)), "thread", 2)
    assert views.shape == (3, 224, 224, 3)


def test_crops_of_long_images_equal_the_whole_to_a_grey_level(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = encode(noise(900, 20))
    whole = Preprocessing(image_size=64).views(blob, "a", 6)
    monkeypatch.setattr(preprocessing, "MAX_RESIZED_PIXELS", 0)
    parts = Preprocessing(image_size=64).views(blob, "a", 6)
    assert np.abs(whole.astype(int) - parts).max() <= 1


GREY = np.linspace(0, 255, 16, dtype=np.uint8).reshape(4, 4)
COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]], np.uint8)


def test_grey_palette_and_bilevel() -> None:
    grey = Image.fromarray(GREY)
    np.testing.assert_array_equal(np.asarray(decode(encode(grey))), np.repeat(GREY[..., None], 3, 2))
    palette = Image.fromarray(COLOURS).quantize(4)
    assert palette.mode == "P"
    np.testing.assert_array_equal(np.asarray(decode(encode(palette))), np.asarray(palette.convert("RGB")))
    bilevel = Image.fromarray(GREY > 100)
    assert bilevel.mode == "1"
    assert set(np.unique(np.asarray(decode(encode(bilevel))))) == {0, 255}
    gif = decode(encode(palette, "GIF", save_all=True, append_images=[palette.transpose(0)]))
    np.testing.assert_array_equal(np.asarray(gif), np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_the_upper_eight(kind: str) -> None:
    deep = Image.fromarray(GREY.astype(np.uint16) * 256 + 200)
    np.testing.assert_array_equal(np.asarray(decode(encode(deep, kind)))[..., 1], GREY)


def test_values_without_a_range_are_refused() -> None:
    with pytest.raises(InputError, match="floating-point"):
        decode(encode(Image.fromarray(GREY.astype(np.float32)), "TIFF"))
    with pytest.raises(InputError, match="32-bit"):
        decode(encode(Image.fromarray(GREY.astype(np.int32) * 1000), "TIFF"))


def test_transparency_lies_over_white() -> None:
    alpha = np.array([[255, 0], [128, 0]], np.uint8)
    rgba = Image.fromarray(np.dstack([COLOURS, alpha]))
    pixels = np.asarray(decode(encode(rgba)))
    np.testing.assert_array_equal(pixels[0, 0], [255, 0, 0])
    np.testing.assert_array_equal(pixels[0, 1], [255, 255, 255])
    np.testing.assert_allclose(pixels[1, 0], [127, 127, 255], atol=1)
    np.testing.assert_array_equal(pixels[1, 1], [255, 255, 255])

    grey_alpha = Image.merge("LA", (Image.new("L", (2, 2), 0), Image.new("L", (2, 2), 0)))
    assert np.asarray(decode(encode(grey_alpha))).min() == 255
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([9, 9, 9, 50, 60, 70])
    assert np.asarray(decode(encode(palette, transparency=0))).min() == 255
    opaque = np.asarray(decode(encode(Image.new("P", (2, 2), 0))))
    assert opaque.max() == 0


def test_cmyk() -> None:
    cmyk = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    pixels = np.asarray(decode(encode(cmyk, "JPEG", quality=100)))
    np.testing.assert_allclose(pixels[4, 4], [255, 0, 0], atol=4)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_honoured(kind: str, orientation: int) -> None:
    upright = Image.new("RGB", (48, 32), "black")
    upright.paste("white", (0, 0, 24, 16))
    # What a camera stores when it is held so that `orientation` is needed to see the scene upright.
    stored = {
        1: [],
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }[orientation]
    image = upright
    for step in stored:
        image = image.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.asarray(decode(encode(image, kind, exif=exif))).astype(int)
    assert pixels.shape == (32, 48, 3)
    assert np.abs(pixels - np.asarray(upright).astype(int)).mean() < 5


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.9])
def test_truncated_files_are_refused(kind: str, share: float) -> None:
    blob = encode(noise(64, 64), kind)
    with pytest.raises(InputError, match=r"no image of a format that is read|cannot be decoded") as caught:
        decode(blob[: int(len(blob) * share)])
    assert "replace the file" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_progressive_jpeg_is_refused() -> None:
    blob = encode(noise(64, 64), "JPEG", progressive=True)
    with pytest.raises(InputError, match="truncated"):
        decode(blob[: len(blob) // 2])


@pytest.mark.parametrize(
    "blob", [b"", b"just some text\n" * 50, b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"\0" * 999]
)
def test_bytes_that_are_no_image_are_refused(blob: bytes) -> None:
    with pytest.raises(InputError, match=r"replace the file or take it out of the collection\.$"):
        decode(blob)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damaged_bytes_never_raise_anything_but_input_errors(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP"]))
    blob = bytearray(encode(noise(12, 9), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings(), contextlib.suppress(InputError):
        warnings.simplefilter("ignore")
        assert decode(bytes(blob)).mode == "RGB"


@pytest.mark.parametrize("side", [14_000, 40_000])
def test_decompression_bombs_are_refused_before_decoding(side: int) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(1000))
    chunks = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (header, data))
    with pytest.raises(InputError, match="178 million pixels"):
        decode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def test_load_views_reports_failures_and_goes_on() -> None:
    good = [encode(noise(40, 30, seed)) for seed in range(4)]
    blobs = [good[0], b"no image", good[1], good[2][:-400], good[3]]
    ids = list("abcde")
    recipe = Preprocessing(image_size=16)
    alone, failures_alone = recipe.load_views(blobs, ids, 1)
    with ThreadPoolExecutor(2) as pool:
        views, failures = recipe.load_views(blobs, ids, 1, pool)
    assert views.shape == (5, 2, 16, 16, 3)
    assert failures == failures_alone
    assert [row for row, _ in failures] == [1, 3]
    assert all(reason.endswith(".") for _, reason in failures)
    np.testing.assert_array_equal(views, alone)
    assert not views[[1, 3]].any()
    for row in (0, 2, 4):
        np.testing.assert_array_equal(views[row], recipe.views(blobs[row], ids[row], 1))
    empty, none = recipe.load_views([], [], 2)
    assert empty.shape == (0, 3, 16, 16, 3)
    assert none == []


def test_to_batch_normalises() -> None:
    recipe = Preprocessing(image_size=5, mean=(0.1, 0.2, 0.3), std=(0.5, 1.0, 2.0))
    views = np.random.RandomState(0).randint(0, 256, (3, 5, 5, 3), dtype=np.uint8)
    batch = recipe.to_batch(views)
    assert batch.dtype == torch.float32
    assert batch.shape == (3, 3, 5, 5)
    expected = (views / 255 - [0.1, 0.2, 0.3]) / [0.5, 1.0, 2.0]
    np.testing.assert_allclose(batch.numpy(), expected.transpose(0, 3, 1, 2), atol=1e-6)
    np.testing.assert_array_equal(recipe.to_batch(views[::2]).numpy(), batch[::2].numpy())


def test_fingerprint_names_every_setting() -> None:
    base = Preprocessing()
    others = [
        Preprocessing(image_size=128),
        Preprocessing(crop_pct=1.0),
        Preprocessing(mean=(0.5, 0.5, 0.5)),
        Preprocessing(std=(0.5, 0.5, 0.5)),
        Preprocessing(seed=1),
    ]
    assert len({recipe.fingerprint for recipe in [base, *others]}) == 6
    assert base.fingerprint == Preprocessing().fingerprint


@pytest.mark.parametrize("settings", [{"image_size": 0}, {"crop_pct": 0.0}, {"crop_pct": 1.5}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        Preprocessing(**settings)  # type: ignore[arg-type]
