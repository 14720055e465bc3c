"""Every benchmark's original layout, written small and read back; then Hugging Face parquet; then damage."""

import csv
import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.io import savemat

from ltgcd.common.errors import InputError
from ltgcd.data.datasets import DATASETS
from ltgcd.data.datasets.imagenet100 import ILSVRC_IDS, SYNSETS
from ltgcd.data.items import ImageFiles, ParquetImages, RawImages


def encoded(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, shade, shade)).save(buffer, "PNG")
    return buffer.getvalue()


def write_images(root: Path, *paths: str) -> None:
    for shade, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(encoded(shade))


def write_lines(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def shades(pool) -> list[int]:
    blobs = pool.items.take(np.arange(len(pool.y)))
    return [Image.open(io.BytesIO(blob)).convert("RGB").getpixel((0, 0))[0] for blob in blobs]


def read(name: str, folder: Path, part: str = "train"):
    pool = DATASETS[name].read(folder, part)
    assert len(pool.ids) == len(pool.items) == len(pool.y)
    assert pool.y.dtype == np.int64
    assert len(set(pool.ids.to_pylist())) == len(pool.ids)
    assert pool.items.kind == DATASETS[name].kind
    return pool


# ---------------------------------------------------------------- original layouts


def python2_pickle(label_key: str, pixels: np.ndarray, labels: list[int]) -> bytes:
    """What cPickle of Python 2 wrote in 2009: byte strings, and NumPy's modules by their old names."""
    state = (
        b"(K\x01K" + bytes([len(pixels)]) + b"M" + struct.pack("<H", pixels.shape[1]) + b"\x86"
        b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<I", pixels.nbytes) + pixels.tobytes() + b"t"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR" + state + b"b"
    key = b"U" + bytes([len(label_key)]) + label_key.encode()
    return b"\x80\x02}(U\x04data" + array + key + b"](" + b"".join(b"K" + bytes([y]) for y in labels) + b"eu."


def cifar_pixels(n: int) -> np.ndarray:
    return np.random.RandomState(n).randint(0, 256, (n, 3072)).astype(np.uint8)


def assert_same_pixels(pool, pixels: np.ndarray) -> None:
    assert isinstance(pool.items, RawImages)
    for blob, row in zip(pool.items.take(np.arange(len(pool.y))), pixels, strict=True):
        image = np.asarray(Image.open(io.BytesIO(blob)))
        assert np.array_equal(image, row.reshape(3, 32, 32).transpose(1, 2, 0))
    chosen = pool.items.select(np.array([1]))
    assert chosen.take(np.array([0])) == pool.items.take(np.array([1]))
    assert pool.items.reading_order().tolist() == list(range(len(pool.items)))


@pytest.mark.parametrize("writer", ["python2", "protocol2", "newest", "bytes keys"])
def test_cifar100_pickles(tmp_path, writer):
    base, pixels = tmp_path / "cifar-100-python", cifar_pixels(3)
    base.mkdir()
    content = {"data": pixels, "fine_labels": [2, 0, 1]}
    packed = {
        "python2": lambda: python2_pickle("fine_labels", pixels, [2, 0, 1]),
        "protocol2": lambda: pickle.dumps(content, protocol=2),
        "newest": lambda: pickle.dumps(content),
        "bytes keys": lambda: pickle.dumps({key.encode(): value for key, value in content.items()}),
    }[writer]()
    (base / "train").write_bytes(packed)
    (base / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bear", "crab"]}, protocol=2))
    pool = read("cifar100", tmp_path)
    assert pool.y.tolist() == [2, 0, 1]
    assert pool.class_names == ("apple", "bear", "crab")
    assert pool.ids.to_pylist() == ["train/0", "train/1", "train/2"]
    assert_same_pixels(pool, pixels)
    assert read("cifar100", base).y.tolist() == [2, 0, 1]  # the folder itself will do


def test_cifar10_pickles_are_joined_in_order(tmp_path):
    base = tmp_path / "cifar-10-batches-py"
    base.mkdir()
    pixels = cifar_pixels(10)
    for i in range(5):
        content = {"data": pixels[2 * i : 2 * i + 2], "labels": [i, 0]}
        (base / f"data_batch_{i + 1}").write_bytes(pickle.dumps(content, protocol=2))
    (base / "test_batch").write_bytes(pickle.dumps({"data": pixels[:2], "labels": [4, 3]}, protocol=2))
    (base / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcde")}, protocol=2))
    pool = read("cifar10", tmp_path)
    assert pool.y.tolist() == [0, 0, 1, 0, 2, 0, 3, 0, 4, 0]
    assert_same_pixels(pool, pixels)
    assert read("cifar10", tmp_path, "test").y.tolist() == [4, 3]


def test_cifar_binary(tmp_path):
    pixels = cifar_pixels(2)
    base = tmp_path / "cifar-100-binary"
    base.mkdir()
    (base / "train.bin").write_bytes(b"".join(bytes([9, y]) + row.tobytes() for y, row in zip([1, 0], pixels)))  # noqa: B905
    write_lines(base / "fine_label_names.txt", "apple", "bear")
    pool = read("cifar100", tmp_path)
    assert pool.y.tolist() == [1, 0]
    assert_same_pixels(pool, pixels)

    base = tmp_path / "ten" / "cifar-10-batches-bin"
    base.mkdir(parents=True)
    (base / "test_batch.bin").write_bytes(b"".join(bytes([y]) + row.tobytes() for y, row in zip([1, 0], pixels)))  # noqa: B905
    write_lines(base / "batches.meta.txt", "plane", "car", "")
    pool = read("cifar10", tmp_path / "ten", "test")
    assert (pool.y.tolist(), pool.class_names) == ([1, 0], ("plane", "car"))


def test_imagenet100_takes_its_synsets_from_all_of_ilsvrc(tmp_path):
    write_images(
        tmp_path,
        f"train/{SYNSETS[1]}/b.JPEG",
        f"train/{SYNSETS[1]}/a.JPEG",
        f"train/{SYNSETS[0]}/z.JPEG",
        "train/n01440764/tench.JPEG",
        f"val/{SYNSETS[99]}/v.JPEG",
    )
    pool = read("imagenet100", tmp_path)
    assert pool.ids.to_pylist() == [
        f"train/{SYNSETS[0]}/z.JPEG",
        f"train/{SYNSETS[1]}/a.JPEG",
        f"train/{SYNSETS[1]}/b.JPEG",
    ]
    assert pool.y.tolist() == [0, 1, 1]
    assert pool.class_names == SYNSETS
    assert isinstance(pool.items, ImageFiles)
    assert shades(pool) == [2, 1, 0]
    assert read("imagenet100", tmp_path, "test").y.tolist() == [99]


def test_imagenet100_flat_validation_folder(tmp_path):
    write_images(tmp_path, "val/ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(InputError, match=r"val has no folders of classes; sort its images into folders"):
        read("imagenet100", tmp_path, "test")


def test_cub200(tmp_path):
    base = tmp_path / "CUB_200_2011"
    write_images(base / "images", "002.Auk/c.jpg", "001.Albatross/a.jpg", "002.Auk/b.jpg")
    write_lines(base / "images.txt", "1 002.Auk/c.jpg", "2 001.Albatross/a.jpg", "3 002.Auk/b.jpg")
    write_lines(base / "image_class_labels.txt", "1 2", "2 1", "3 2")
    write_lines(base / "train_test_split.txt", "1 1", "2 1", "3 0")
    write_lines(base / "classes.txt", "1 001.Albatross", "2 002.Auk")
    pool = read("cub200", tmp_path)
    assert pool.ids.to_pylist() == ["images/002.Auk/c.jpg", "images/001.Albatross/a.jpg"]
    assert pool.y.tolist() == [1, 0]
    assert pool.class_names == ("001.Albatross", "002.Auk")
    assert shades(pool) == [0, 1]
    assert read("cub200", base, "test").y.tolist() == [1]

    (base / "images/001.Albatross/a.jpg").unlink()
    with pytest.raises(InputError, match=r"images\.txt lists 1 images that are not in .*Albatross/a\.jpg"):
        read("cub200", tmp_path)
    write_lines(base / "train_test_split.txt", "1 1", "2 1")
    with pytest.raises(InputError, match=r"train_test_split\.txt does not name the same images"):
        read("cub200", tmp_path)
    write_lines(base / "image_class_labels.txt", "1 2", "2 1", "3")
    with pytest.raises(InputError, match=r"image_class_labels\.txt .* cut off"):
        read("cub200", tmp_path)


def write_cars(base: Path, file: str, rows: list[tuple[int, str]]) -> None:
    fields = [("bbox_x1", "O"), ("bbox_y1", "O"), ("bbox_x2", "O"), ("bbox_y2", "O"), ("class", "O"), ("fname", "O")]
    (base / file).parent.mkdir(parents=True, exist_ok=True)
    savemat(base / file, {"annotations": np.array([[(1, 1, 2, 2, *row) for row in rows]], dtype=fields)})


@pytest.mark.parametrize("deeper", [False, True])
def test_stanford_cars(tmp_path, deeper):
    inner = "/cars_{0}" if deeper else ""
    write_images(
        tmp_path,
        f"cars_train{inner.format('train')}/00001.jpg",
        f"cars_train{inner.format('train')}/00002.jpg",
        f"cars_test{inner.format('test')}/00001.jpg",
    )
    write_cars(tmp_path, "devkit/cars_train_annos.mat", [(2, "00002.jpg"), (1, "00001.jpg")])
    write_cars(tmp_path, "cars_test_annos_withlabels.mat", [(2, "00001.jpg")])
    names = np.array([["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]], dtype=object)
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": names})
    pool = read("stanford-cars", tmp_path)
    assert pool.y.tolist() == [1, 0]
    assert pool.class_names == ("AM General Hummer SUV 2000", "Acura RL Sedan 2012")
    assert shades(pool) == [1, 0]
    assert read("stanford-cars", tmp_path, "test").y.tolist() == [1]

    path = tmp_path / "devkit/cars_train_annos.mat"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"cars_train_annos\.mat can't be read as a MATLAB file .* damaged"):
        read("stanford-cars", tmp_path)
    (tmp_path / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(InputError, match=r"cars_test_annos_withlabels\.mat can't be read .* not there"):
        read("stanford-cars", tmp_path, "test")


def test_fgvc_aircraft_numbers_variants_as_strings(tmp_path):
    base = tmp_path / "fgvc-aircraft-2013b/data"
    write_images(base / "images", "0034309.jpg", "1025794.jpg", "0000007.jpg")
    write_lines(base / "variants.txt", "707-320", "An-12", "ATR-42", "Gulfstream IV")
    write_lines(base / "images_variant_trainval.txt", "1025794 An-12", "0034309 Gulfstream IV")
    write_lines(base / "images_variant_test.txt", "0000007 ATR-42")
    pool = read("fgvc-aircraft", tmp_path)
    assert pool.class_names == ("707-320", "ATR-42", "An-12", "Gulfstream IV")
    assert pool.y.tolist() == [2, 3]
    assert pool.ids.to_pylist() == ["images/1025794.jpg", "images/0034309.jpg"]
    assert shades(pool) == [1, 0]
    assert read("fgvc-aircraft", base.parent, "test").y.tolist() == [1]
    write_lines(base / "images_variant_test.txt", "0000007 Airbu")
    with pytest.raises(InputError, match=r"images_variant_test\.txt has 1 items of no known class .*'Airbu'"):
        read("fgvc-aircraft", tmp_path, "test")


def test_herbarium19_sorts_numbers_as_strings(tmp_path):
    write_images(
        tmp_path, "small-train/2/a.jpg", "small-train/10/b.jpg", "small-train/0/c.jpg", "small-validation/2/d.jpg"
    )
    pool = read("herbarium19", tmp_path)
    assert pool.class_names == ("0", "10", "2")
    assert pool.y.tolist() == [0, 1, 2]
    assert shades(pool) == [2, 1, 0]


def test_inaturalist18(tmp_path):
    write_images(tmp_path, "train_val2018/Aves/1/x.jpg", "train_val2018/Plantae/0/y.jpg")
    content = {
        "images": [
            {"id": 7, "file_name": "train_val2018/Plantae/0/y.jpg"},
            {"id": 3, "file_name": "train_val2018/Aves/1/x.jpg"},
        ],
        "annotations": [{"id": 1, "image_id": 3, "category_id": 1}, {"id": 2, "image_id": 7, "category_id": 0}],
        "categories": [{"id": 1, "name": "Turdus merula"}, {"id": 0, "name": "Bellis perennis"}],
    }
    (tmp_path / "train2018.json").write_text(json.dumps(content))
    pool = read("inaturalist18", tmp_path)
    assert pool.class_names == ("Bellis perennis", "Turdus merula")
    assert pool.y.tolist() == [0, 1]
    assert shades(pool) == [1, 0]

    content["annotations"].pop()
    (tmp_path / "train2018.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"train2018\.json can't be read as a list of images"):
        read("inaturalist18", tmp_path)
    (tmp_path / "train2018.json").write_text(json.dumps(content)[:-20])
    with pytest.raises(InputError, match=r"train2018\.json can't be read as JSON"):
        read("inaturalist18", tmp_path)


def test_names_that_two_classes_share_are_told_apart(tmp_path):
    write_images(tmp_path, "train_val2018/a.jpg", "train_val2018/b.jpg")
    content = {
        "images": [{"id": i, "file_name": f"train_val2018/{name}.jpg"} for i, name in enumerate("ab")],
        "annotations": [{"image_id": i, "category_id": i} for i in range(2)],
        "categories": [{"id": i, "name": "Ficus"} for i in range(2)],
    }
    (tmp_path / "val2018.json").write_text(json.dumps(content))
    assert read("inaturalist18", tmp_path, "test").class_names == ("Ficus (0)", "Ficus (1)")


def test_plankton(tmp_path):
    write_images(tmp_path, "train/copepod/2.jpg", "train/copepod/1.jpg", "train/amphipods/9.jpg")
    write_lines(tmp_path / "train/copepod/Thumbs.db", "no image")
    (tmp_path / "train/.cache").mkdir()
    pool = read("plankton", tmp_path)
    assert pool.class_names == ("amphipods", "copepod")
    assert pool.y.tolist() == [0, 1, 1]
    assert shades(pool) == [2, 1, 0]
    with pytest.raises(InputError, match="no labelled test part"):
        read("plankton", tmp_path, "test")


def test_clinc150_leaves_out_what_is_out_of_scope(tmp_path):
    content = {
        "train": [["set an alarm", "alarm"], ["what's my balance", "balance"], ["hm", "oos"], ["wake me", "alarm"]],
        "val": [],
        "test": [["balance please", "balance"]],
        "oos_train": [["who is the king", "oos"]],
    }
    (tmp_path / "data_imbalanced.json").write_text(json.dumps(content))
    pool = read("clinc150", tmp_path)
    assert pool.class_names == ("alarm", "balance")
    assert pool.y.tolist() == [0, 1, 0]
    assert pool.items.take(np.array([2])) == ["wake me"]
    assert read("clinc150", tmp_path, "test").y.tolist() == [1]
    (tmp_path / "data_imbalanced.json").write_text('{"train": [["a"]]}')
    with pytest.raises(InputError, match=r"data_imbalanced\.json can't be read as lists of \[text, intent\]"):
        read("clinc150", tmp_path)


@pytest.mark.parametrize("with_categories", [True, False])
def test_banking77_numbers_intents_by_name(tmp_path, with_categories):
    rows = [("I am still waiting,\non my card", "card_arrival"), ('my "refund"', "Refund_not_showing_up")]
    with (tmp_path / "train.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "category"), *rows])
    if with_categories:
        (tmp_path / "categories.json").write_text(json.dumps(["card_arrival", "Refund_not_showing_up"]))
    pool = read("banking77", tmp_path)
    assert pool.class_names == ("Refund_not_showing_up", "card_arrival")
    assert pool.y.tolist() == [1, 0]
    assert pool.items.take(np.array([0, 1])) == [text for text, _ in rows]
    write_lines(tmp_path / "train.csv", "text,label", "a,b")
    with pytest.raises(InputError, match=r"train\.csv needs the columns 'text' and 'category'"):
        read("banking77", tmp_path)


# ---------------------------------------------------------------- Hugging Face parquet


def write_parquet(path: Path, names: list[str] | None, labels: list[int], column: str = "label", text: bool = False):
    data = [f"text {y}" for y in labels] if text else [{"bytes": encoded(y), "path": None} for y in labels]
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    label = pa.array(labels, pa.int64() if not labels or isinstance(labels[0], int) else pa.string())
    table = pa.table({"text" if text else "image": pa.array(data, pa.string() if text else image), column: label})
    if names is not None:
        features = {column: {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@pytest.mark.parametrize("inner", ["", "data/", "cifar100/"])
def test_parquet_in_shards(tmp_path, inner):
    names = ["apple", "bear", "crab"]
    write_parquet(tmp_path / f"{inner}train-00000-of-00002.parquet", names, [2, 0], "fine_label")
    write_parquet(tmp_path / f"{inner}train-00001-of-00002.parquet", names, [1, 2], "fine_label")
    pool = read("cifar100", tmp_path)
    assert isinstance(pool.items, ParquetImages)
    assert pool.y.tolist() == shades(pool) == [2, 0, 1, 2]
    assert pool.class_names == tuple(names)
    assert pool.ids.to_pylist() == [f"train/{i}" for i in range(4)]
    (tmp_path / f"{inner}train-00000-of-00002.parquet").unlink()
    with pytest.raises(InputError, match=r"lacks 1 of 2 shards of 'train' .*train-00000-of-00002\.parquet"):
        read("cifar100", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cub200", "stanford-cars", "herbarium19", "inaturalist18", "plankton"])
def test_parquet_of_images(tmp_path, name):
    write_parquet(tmp_path / "train.parquet", ["a", "b", "c"], [1, 2, 0])
    pool = read(name, tmp_path)
    assert pool.y.tolist() == shades(pool) == [1, 2, 0]
    with pytest.raises(InputError, match="test"):
        read(name, tmp_path, "test")


def test_parquet_of_ilsvrc_is_cut_down_to_the_hundred(tmp_path):
    names = [f"word {i}" for i in range(1000)]
    write_parquet(tmp_path / "data/train-00000-of-00001.parquet", names, [0, 1, 14, 2])
    write_parquet(tmp_path / "data/validation-00000-of-00001.parquet", names, [1])
    pool = read("imagenet100", tmp_path)
    assert ILSVRC_IDS[:2] == (1, 14)
    assert (pool.y.tolist(), shades(pool)) == ([0, 1], [1, 14])
    assert pool.ids.to_pylist() == ["train/1", "train/2"]
    assert pool.class_names == SYNSETS
    assert read("imagenet100", tmp_path, "test").y.tolist() == [0]


def test_parquet_of_the_hundred_is_told_from_another_hundred(tmp_path):
    write_parquet(tmp_path / "train.parquet", list(reversed(SYNSETS)), [0, 99])
    assert read("imagenet100", tmp_path).y.tolist() == [99, 0]
    write_parquet(tmp_path / "train.parquet", [f"n{i}" for i in range(100)], [0, 99])
    with pytest.raises(InputError, match=r"train\.parquet has 100 classes that can't be told to be the hundred"):
        read("imagenet100", tmp_path)


def test_parquet_of_aircraft_joins_train_and_validation(tmp_path):
    names = ["An-12", "ATR-42"]
    write_parquet(tmp_path / "data/train-00000-of-00001.parquet", names, [0, 1], "variant")
    with pytest.raises(InputError, match=r"has no validation\.parquet, which belongs to the part 'train'"):
        read("fgvc-aircraft", tmp_path)
    write_parquet(tmp_path / "data/validation-00000-of-00001.parquet", names, [1], "variant")
    pool = read("fgvc-aircraft", tmp_path)
    assert pool.class_names == ("ATR-42", "An-12")
    assert (pool.y.tolist(), shades(pool)) == ([1, 0, 0], [0, 1, 1])
    assert pool.ids.to_pylist() == ["train/0", "train/1", "validation/0"]


def test_parquet_of_texts(tmp_path):
    write_parquet(
        tmp_path / "imbalanced/train-00000-of-00001.parquet",
        ["balance", "oos", "alarm"],
        [0, 1, 2],
        "intent",
        text=True,
    )
    pool = read("clinc150", tmp_path)
    assert (pool.class_names, pool.y.tolist()) == (("alarm", "balance"), [1, 0])
    assert pool.items.take(np.array([0, 1])) == ["text 0", "text 2"]
    assert pool.ids.to_pylist() == ["train/0", "train/2"]

    write_parquet(tmp_path / "test.parquet", ["b", "a"], [0, 1], text=True)
    assert read("banking77", tmp_path, "test").y.tolist() == [1, 0]


def test_the_original_layout_goes_before_parquet(tmp_path):
    write_images(tmp_path, "train/a/1.jpg")
    write_parquet(tmp_path / "train.parquet", ["a", "b"], [0, 1])
    assert len(read("plankton", tmp_path).y) == 1


# ---------------------------------------------------------------- damage


def test_parquet_damage(tmp_path):
    path = tmp_path / "train.parquet"
    write_parquet(path, ["a", "b"], [0, 5])
    with pytest.raises(InputError, match="labels from 0 to 5 for the part 'train', but class names for 0 to 1"):
        read("plankton", tmp_path)
    write_parquet(path, None, [0, 1])
    with pytest.raises(InputError, match=r"train\.parquet has no class names for 'label'"):
        read("plankton", tmp_path)
    write_parquet(path, ["a"], ["a"], text=True)
    with pytest.raises(InputError, match=r"train\.parquet has labels of type string in 'label'"):
        read("banking77", tmp_path)
    write_parquet(path, ["a"], [0], column="other")
    with pytest.raises(InputError, match=r"train\.parquet has no column 'label'"):
        read("plankton", tmp_path)
    write_parquet(path, ["a"], [0])
    with pytest.raises(InputError, match=r"train\.parquet .* lacks one of the columns"):
        read("banking77", tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"train\.parquet can't be read as parquet"):
        read("plankton", tmp_path)
    write_parquet(path, ["a"], [])
    with pytest.raises(InputError, match=r"train\.parquet holds no items"):
        read("plankton", tmp_path)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_an_empty_folder_says_what_is_missing(tmp_path, name):
    with pytest.raises(InputError, match=r"does not hold the part 'train', neither as .* nor as Hugging Face parquet"):
        DATASETS[name].read(tmp_path, "train")


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("evil-was-here"),))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"data": Evil(), "fine_labels": [0]}),
        pickle.dumps({"data": cifar_pixels(2), "fine_labels": [0, 1]}, protocol=2)[:-400],
        pickle.dumps({"data": cifar_pixels(2), "fine_labels": [0]}),
        pickle.dumps({"data": cifar_pixels(2).astype(float), "fine_labels": [0, 1]}),
        pickle.dumps({"data": cifar_pixels(2)}),
        pickle.dumps([1, 2]),
        b"",
        b"no pickle at all",
    ],
    ids=["code", "cut off", "unequal", "floats", "no labels", "no dict", "empty", "text"],
)
def test_cifar_pickles_run_no_code_and_fail_clearly(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").write_bytes(content)
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bear"]}))
    with pytest.raises(InputError, match=r"train can't be read as a .* of CIFAR: it is damaged"):
        read("cifar100", tmp_path)
    assert not Path("evil-was-here").exists()


def test_cifar_damage(tmp_path):
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple"]}))
    with pytest.raises(InputError, match=r"train can't be read as a pickle of CIFAR: it is not there"):
        read("cifar100", tmp_path)
    (tmp_path / "train").write_bytes(pickle.dumps({"data": cifar_pixels(2), "fine_labels": [0, 1]}))
    with pytest.raises(InputError, match="class ids from 0 to 1, but there are 1 class names"):
        read("cifar100", tmp_path)
    base = tmp_path / "b"
    write_lines(base / "fine_label_names.txt", "apple")
    (base / "train.bin").write_bytes(b"\0" * 3000)
    with pytest.raises(InputError, match=r"train\.bin is no whole number of 3074-byte records"):
        read("cifar100", base)
    with pytest.raises(InputError, match=r"test\.bin can't be read .* not there"):
        read("cifar100", base, "test")
