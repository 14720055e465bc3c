"""The names, the official classes pinned number by number, and where datasets are looked for."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ltgcd.common.errors import InputError
from ltgcd.data import datasets
from ltgcd.data.datasets import DATASETS, class_order, data_root, folder_names, get_dataset, load_pool, locate
from ltgcd.data.datasets.imagenet100 import ILSVRC_IDS, SYNSETS

NAMES = [
    "cifar10", "cifar100", "imagenet100", "cub200", "stanford-cars", "fgvc-aircraft", "herbarium19", "inaturalist18",
    "plankton", "clinc150", "banking77",
]  # fmt: skip

IMAGENET_100 = """
1 14 27 31 45 55 77 103 108 141 142 175 196 202 230 231 236 239 247 251 252 261 262 264 267 270 272 279 295 298 299 306
310 311 316 319 331 366 367 386 389 408 412 413 432 452 456 481 485 494 496 497 501 531 553 558 568 569 576 578 582 587
601 614 635 638 643 644 654 672 693 698 706 710 736 738 740 760 783 784 788 790 796 819 823 859 862 874 883 906 909 918
923 926 957 971 982 987 993 996
"""


def test_names():
    assert list(DATASETS) == NAMES
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert get_dataset(name) is get_dataset(f"{name}-lt") is get_dataset(name.upper().replace("-", "_")) is dataset


def test_unknown_name():
    with pytest.raises(
        InputError, match=r"no dataset 'cifar-100' \(did you mean 'cifar100'\?\); choose one of cifar10, "
    ):
        get_dataset("cifar-100")
    with pytest.raises(InputError, match=r"no dataset 'xyz'; choose one of"):
        get_dataset("xyz")


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_complete(name):
    dataset = DATASETS[name]
    for text in (dataset.title, dataset.licence, dataset.origin, dataset.citation, dataset.how):
        assert text
        assert "\n" not in text
    assert dataset.how.endswith(".")
    for archive in dataset.archives:
        algorithm, _, digest = archive.checksum.partition(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
        assert set(digest) <= set("0123456789abcdef")
        assert archive.size > 0
        assert archive.url.startswith("https://")
        assert archive.file in archive.url


@pytest.mark.parametrize("name", NAMES)
def test_old_classes(name):
    dataset = DATASETS[name]
    for seed in (0, 1):
        listed = dataset.old_classes(seed)
        old = listed[: dataset.n_old]
        assert len(old) == len(set(old)) == dataset.n_old
        assert len(listed) in {dataset.n_old, dataset.n_classes}
        assert all(type(c) is int and 0 <= c < dataset.n_classes for c in old)
        order = class_order(dataset, seed)
        assert sorted(order) == list(range(dataset.n_classes))
        assert order[: dataset.n_old] == old
    listed.append(-1)  # a list of one's own
    assert -1 not in dataset.old_classes(1)


@pytest.mark.parametrize(
    ("name", "n_classes", "n_old", "head", "total"),
    [
        ("cifar10", 10, 5, [0, 1, 2], 10),
        ("cifar100", 100, 80, [0, 1, 2], 3160),
        ("imagenet100", 100, 50, [0, 1, 2], 1225),
        ("cub200", 200, 100, [150, 70, 34], 10154),
        ("stanford-cars", 196, 98, [1, 11, 25], 12244),
        ("fgvc-aircraft", 100, 50, [0, 1, 2], 2066),
        ("herbarium19", 683, 341, [113, 378, 303], 116254),
        ("inaturalist18", 8142, 4071, [0, 1, 2], 8284485),
    ],
)
def test_published_old_classes_do_not_depend_on_the_seed(name, n_classes, n_old, head, total):
    dataset = DATASETS[name]
    old = dataset.old_classes(0)
    assert (dataset.n_classes, dataset.n_old, old[:3], sum(old)) == (n_classes, n_old, head, total)
    assert dataset.old_classes(7) == old


@pytest.mark.parametrize(("name", "n_old"), [("plankton", 60), ("clinc150", 75), ("banking77", 38)])
def test_where_none_is_published_half_of_the_classes_by_the_seed(name, n_old):
    dataset = DATASETS[name]
    assert dataset.n_old == n_old
    # The whole order is random, so that a subset of the New classes is no run of the alphabet.
    assert class_order(dataset, 3) == np.random.RandomState(3).permutation(dataset.n_classes).tolist()
    assert set(class_order(dataset, 3)[:n_old]) != set(class_order(dataset, 4)[:n_old])


def test_imagenet100_is_the_printed_list():
    assert list(ILSVRC_IDS) == [int(i) for i in IMAGENET_100.split()]
    assert len(set(SYNSETS)) == 100
    assert list(SYNSETS) == sorted(SYNSETS)
    # Known places: 1 goldfish, 14 indigo bunting, 386 African elephant, 996 hen-of-the-woods.
    assert [SYNSETS[ILSVRC_IDS.index(i)] for i in (1, 14, 386, 996)] == [
        "n01443537",
        "n01537544",
        "n02504458",
        "n13052670",
    ]


def test_herbarium_is_the_legacy_draw():
    np.random.seed(0)
    drawn = np.random.choice(range(683), size=341, replace=False).tolist()
    assert DATASETS["herbarium19"].old_classes(0) == drawn
    digest = hashlib.sha256(",".join(map(str, drawn)).encode()).hexdigest()
    assert digest == "3c88e8b90476cbd9ced2fb71531820c81fe5982e3dcbad9f3b00b09d9cd38768"


def test_heads_of_the_long_tail():
    heads = {name: dataset.heads for name, dataset in DATASETS.items() if dataset.heads}
    assert heads == {
        "cifar10": {"paper-counts": (1200, 2800)},
        "cifar100": {"paper-counts": (120, 280)},
        "imagenet100": {"paper-counts": (300, 560)},
    }


# ---------------------------------------------------------------- where datasets lie


def test_data_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LTGCD_DATA", "~/somewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_root("given") == Path("given")
    assert data_root() == tmp_path / "home/somewhere"
    monkeypatch.delenv("LTGCD_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_root() == tmp_path / "home/.cache/ltgcd/datasets"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root() == tmp_path / "cache/ltgcd/datasets"
    (tmp_path / "shared/data").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert data_root() == Path("../shared/data")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("stanford-cars", "stanford-cars"),
        ("stanford-cars", "stanford_cars"),
        ("cub200", "CUB_200_2011"),
        ("fgvc-aircraft", "fgvc-aircraft-2013b"),
        ("clinc150", "clinc150_imbalanced"),
        ("herbarium19", "herbarium_19"),
    ],
)
def test_locate(tmp_path, name, folder):
    assert locate(DATASETS[name], tmp_path) is None
    (tmp_path / folder).mkdir()
    assert locate(DATASETS[name], tmp_path) is None
    (tmp_path / folder / "file.tar.gz").touch()
    (tmp_path / folder / "file.tar.gz.part").touch()
    (tmp_path / folder / ".hidden").touch()
    assert locate(DATASETS[name], tmp_path) is None
    (tmp_path / folder / "images").mkdir()
    assert locate(DATASETS[name], tmp_path) == tmp_path / folder
    assert folder_names(DATASETS[name])[0] == name


def test_load_pool_says_where_it_looked_and_how_to_get_it(tmp_path):
    with pytest.raises(
        InputError, match=rf"CUB-200-2011 is not in {tmp_path} \(looked for .*CUB_200_2011.*datasets get cub200"
    ):
        load_pool("cub200", tmp_path)
    with pytest.raises(InputError, match=r"Herbarium-19 is not in .*by hand: .*AccessDenied.*kaggle"):
        load_pool("herbarium19", tmp_path)


def test_load_pool_flags_missing_classes(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / "plankton/train" / name).mkdir(parents=True)
        Image.new("L", (2, 2)).save(tmp_path / "plankton/train" / name / "1.png")
    with pytest.raises(InputError, match=r"plankton has 2 classes, but Plankton .* has 121"):
        load_pool("plankton", tmp_path)
    monkeypatch.setitem(datasets.DATASETS, "plankton", replace(DATASETS["plankton"], n_classes=2))
    assert len(load_pool("plankton", tmp_path).y) == 2
    (tmp_path / "plankton/train/b/1.png").unlink()
    with pytest.raises(InputError, match=r"no items of 1 of the 2 classes .*'b'"):
        load_pool("plankton", tmp_path)


def test_import_is_light():
    code = (
        "import sys, ltgcd.data.datasets; print([m for m in ('torch', 'scipy', 'sklearn', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
