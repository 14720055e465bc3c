"""Features on disk: right, resumable to the byte, never stale, nothing lost, nothing silently skipped."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
import torch
from torch import nn

import ltgcd.features.embed as features_module
from conftest import call_cli, image_bytes
from forks import Forked
from ltgcd.common.errors import BusyError, InputError
from ltgcd.common.files import LOCK, locked
from ltgcd.data.collection import Collection, Source
from ltgcd.data.items import ImageBytes, Texts, Vectors
from ltgcd.data.sources import read_source
from ltgcd.features.backbones import engines, load_backbone
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.preprocessing import Preprocessing
from ltgcd.features.cache import open_features
from ltgcd.features.embed import embed


class TinyTrunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, stride=4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.conv(images)
        return out


def tiny_backbone(**changes: object) -> Backbone:
    trunk = TinyTrunk()
    settings = {"image_size": 16, **changes}
    tail = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
    torch.manual_seed(1)
    nn.init.normal_(tail[1].weight)
    return Backbone("tiny", "image", trunk, tail, (4, 4, 4), 6, Preprocessing(**settings))  # type: ignore[arg-type]


def images(n: int, broken: tuple[int, ...] = ()) -> Source:
    blobs = [b"broken" if i in broken else image_bytes(i, (20, 24)) for i in range(n)]
    ids = pa.array([f"im-{i:04d}" for i in range(n)], pa.string())
    y = np.where(np.arange(n) % 3 == 0, 0, -1)
    return Source(Collection(ids, ImageBytes(pa.array(blobs, pa.binary())), y, ("cat",)), None)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_module, "SHARD_ITEMS", 32)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


def test_activations_are_those_of_the_trunk(tmp_path: Path) -> None:
    source, backbone = images(70), tiny_backbone()
    result = embed(source, backbone, tmp_path / "f", views=2)
    assert (result.n, result.dim, result.skipped, result.embedded) == (70, 6, (), 70)
    store = open_features(tmp_path / "f")
    assert backbone.preprocessing is not None
    for i in (0, 31, 32, 69):
        views = backbone.preprocessing.views(image_bytes(i, (20, 24)), f"im-{i:04d}", 2)
        with torch.no_grad():
            expected = backbone.trunk(backbone.preprocessing.to_batch(views)).numpy()
        for view in range(3):
            got = store.take(np.array([i]), view)[0]
            np.testing.assert_allclose(got, expected[view].astype(np.float16), atol=2e-3)
    mixed = store.take(np.array([5, 60, 5]), np.array([0, 2, 1]))
    np.testing.assert_array_equal(mixed[1], store.take(np.array([60]), 2)[0])
    np.testing.assert_array_equal(mixed[2], store.take(np.array([5]), 1)[0])
    # The folder is a source of embeddings with the labels of the images; the same is handed on in memory.
    collection, _ = read_source(tmp_path / "f")
    np.testing.assert_array_equal(result.source.collection.items.x, collection.items.x)  # type: ignore[union-attr]
    assert result.source.collection.ids.equals(collection.ids)
    assert isinstance(collection.items, Vectors)
    np.testing.assert_array_equal(collection.y, source.collection.y)
    with torch.no_grad():
        h = backbone.tail(torch.from_numpy(store.take(np.arange(70)).astype(np.float32))).numpy()
    np.testing.assert_allclose(collection.items.x, h, rtol=1e-5, atol=1e-5)


def test_broken_images_are_reported_and_the_rest_is_right(tmp_path: Path) -> None:
    whole = embed(images(70), tiny_backbone(), tmp_path / "whole")
    result = embed(images(70, broken=(3, 40)), tiny_backbone(), tmp_path / "f")
    assert [item for item, _ in result.skipped] == ["im-0003", "im-0040"]
    assert result.n == 68
    with (tmp_path / "f" / "skipped.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["im-0003", "im-0040"]
    assert all("image" in row["reason"] for row in rows)
    kept = np.array([i for i in range(70) if i not in {3, 40}])
    np.testing.assert_array_equal(
        open_features(tmp_path / "f").take(np.arange(68)), open_features(whole.path).take(kept)
    )
    with pytest.raises(InputError, match="'im-0003'"):
        embed(images(70, broken=(3, 40)), tiny_backbone(), tmp_path / "strict", strict=True)
    none = r"None of the 2 items could be read \(the first is 'im-0000': .*\); .*\.$"
    with pytest.raises(InputError, match=none):
        embed(images(2, broken=(0, 1)), tiny_backbone(), tmp_path / "all")
    empty = embed(images(2, broken=(0, 1)), tiny_backbone(), tmp_path / "all", may_be_empty=True)
    assert (empty.n, len(empty.store), len(empty.skipped)) == (0, 0, 2)
    with pytest.raises(InputError, match=none):
        empty.source  # noqa: B018


def test_adding_items_embeds_only_the_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    embed(images(50), tiny_backbone(), folder)
    before = content(folder)
    result = embed(images(80), tiny_backbone(), folder)
    assert (result.n, result.embedded) == (80, 30)
    after = content(folder)
    assert all(after[name] == before[name] for name in before if name.startswith("shard-"))
    fresh = embed(images(80), tiny_backbone(), tmp_path / "fresh")
    everything = np.arange(80)
    np.testing.assert_array_equal(result.store.take(everything), fresh.store.take(everything))
    # Nothing new: nothing is computed. Items that are gone leave the index.
    assert embed(images(80), tiny_backbone(), folder).embedded == 0
    assert embed(images(10), tiny_backbone(), folder).n == 10
    assert len(open_features(folder)) == 10


def test_changed_content_is_embedded_again_also_when_it_changes_back(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    source = images(40)
    embed(source, tiny_backbone(), folder)
    original = open_features(folder).take(np.array([7]))
    blobs = source.collection.items.take(np.arange(40))
    blobs[7] = image_bytes(999, (20, 24))
    changed = Collection(source.collection.ids, ImageBytes(pa.array(blobs)), source.collection.y, ("cat",))
    assert embed(Source(changed, None), tiny_backbone(), folder).embedded == 1
    assert not np.array_equal(open_features(folder).take(np.array([7])), original)
    assert embed(source, tiny_backbone(), folder).embedded == 1
    np.testing.assert_array_equal(open_features(folder).take(np.array([7])), original)


def test_changed_content_is_never_hidden_by_an_older_shard(tmp_path: Path) -> None:
    """A damaged shard leaves a gap; new content of an item in a later shard must not go into it."""
    folder = tmp_path / "f"
    embed(images(50), tiny_backbone(), folder)  # shards of 32 and 18
    embed(images(60), tiny_backbone(), folder)  # and of 10
    original = open_features(folder).take(np.array([55]))
    (folder / "shard-00001.npy").unlink()
    blobs = images(60).collection.items.take(np.arange(60))
    blobs[55] = image_bytes(999, (20, 24))
    changed = Collection(images(60).collection.ids, ImageBytes(pa.array(blobs)), images(60).collection.y, ("cat",))
    assert embed(Source(changed, None), tiny_backbone(), folder).embedded == 19
    assert not np.array_equal(open_features(folder).take(np.array([55])), original)
    assert embed(Source(changed, None), tiny_backbone(), folder).embedded == 0


def test_remains_of_killed_runs_are_swept_away(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    embed(images(10), tiny_backbone(), folder)
    before = content(folder)
    (folder / ".shard-00001.npy.123.tmp").write_bytes(b"half")
    embed(images(10), tiny_backbone(), folder)
    assert content(folder) == before


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    embed(images(10), tiny_backbone(), tmp_path / "f")
    (tmp_path / "f" / "shard-copy.parquet").write_text("mine")
    assert embed(images(10), tiny_backbone(), tmp_path / "f").embedded == 0
    (tmp_path / "f" / "features.json").write_text("[]")
    with pytest.raises(InputError, match=r"features\.json is damaged"):
        embed(images(10), tiny_backbone(), tmp_path / "f")


def test_a_tail_that_gives_nonsense_is_noticed(tmp_path: Path) -> None:
    backbone = tiny_backbone()
    nn.init.constant_(backbone.tail[1].weight, float("nan"))  # type: ignore[index]
    with pytest.raises(InputError, match="NaN or infinite features"):
        embed(images(10), backbone, tmp_path / "f")
    assert not (tmp_path / "f" / "features.npz").exists()


@pytest.mark.parametrize("change", ["weights", "size", "seed", "views"])
def test_stale_features_are_refused(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "f"
    embed(images(10), tiny_backbone(), folder)
    before = content(folder)
    backbone = tiny_backbone(**{"size": {"crop_pct": 0.5}, "seed": {"seed": 4}}.get(change, {}))
    if change == "weights":
        with torch.no_grad():
            backbone.trunk.conv.weight[0, 0, 0, 0] += 1e-6  # type: ignore[index, union-attr, operator]
    with pytest.raises(InputError, match="holds features of another model or preprocessing"):
        embed(images(10), backbone, folder, views=1 if change == "views" else 0)
    assert content(folder) == before


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "table"])
def test_a_damaged_shard_is_noticed_and_made_anew(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "f"
    embed(images(90), tiny_backbone(), folder)
    before = content(folder)
    path = folder / "shard-00001.npy"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-5] ^= 1
        path.write_bytes(bytes(data))
    elif damage == "truncate":
        path.write_bytes(bytes(data[:-100]))
    elif damage == "remove":
        path.unlink()
    else:
        path.with_suffix(".parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match=r"shard-00001\.npy is damaged; run the same 'ltgcd embed' again"):
        open_features(folder)
    said: list[str] = []
    result = embed(images(90), tiny_backbone(), folder, notify=said.append)
    assert result.embedded == 32
    assert any("shard 1" in message for message in said)
    assert content(folder) == before


def test_an_index_of_another_folder_is_noticed(tmp_path: Path) -> None:
    for name, source in (("a", images(5)), ("b", images(5, (1,)))):
        embed(source, tiny_backbone(), tmp_path / name)
        open_features(tmp_path / name)
    shutil.copyfile(tmp_path / "b" / "index.parquet", tmp_path / "a" / "index.parquet")
    with pytest.raises(InputError, match="of other shards"):
        open_features(tmp_path / "a")
    embed(images(5), tiny_backbone(), tmp_path / "a")
    open_features(tmp_path / "a")


def test_another_table_in_place_of_the_index_is_told_and_written_anew(tmp_path: Path) -> None:
    """Of the same folder, and whole: only its columns tell."""
    folder = tmp_path / "a"
    embed(images(5), tiny_backbone(), folder)
    before = content(folder)
    shutil.copyfile(folder / "shard-00000.parquet", folder / "index.parquet")
    with pytest.raises(InputError, match="is another table"):
        open_features(folder)
    embed(images(5), tiny_backbone(), folder)
    assert content(folder) == before


def test_too_little_room_is_an_error_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(features_module.shutil, "disk_usage", lambda _path: usage)
    said: list[str] = []
    with pytest.raises(InputError, match="has room for 0 MB"):
        embed(images(40), tiny_backbone(), tmp_path / "f", notify=said.append)
    assert "this needs" in said[0]
    assert not list((tmp_path / "f").glob("shard-*"))


def test_the_room_for_the_features_is_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 items of 128 bytes in shards, and 24 + 128 each in the other files."""
    for free, fits in ((40 * 280 * 0.9, False), (40 * 280 * 1.1, True)):
        usage = shutil.disk_usage(tmp_path)._replace(free=int(free))
        monkeypatch.setattr(features_module.shutil, "disk_usage", lambda _path, usage=usage: usage)
        if fits:
            embed(images(40), tiny_backbone(), tmp_path / "f")
        else:
            with pytest.raises(InputError, match="has room for 0 MB"):
                embed(images(40), tiny_backbone(), tmp_path / "f")


def test_two_processes_keep_out_of_each_others_way(tmp_path: Path) -> None:
    embed(images(5), tiny_backbone(), tmp_path / "f")
    told = pytest.raises(BusyError, match=r"f is being written to by ltgcd embed \(process \d+\)")
    with locked(tmp_path / "f", "ltgcd embed"), told:
        embed(images(6), tiny_backbone(), tmp_path / "f")
    (tmp_path / "g").mkdir()
    with locked(tmp_path / "g", "ltgcd embed"):  # another embed, that has not said of what yet
        with pytest.raises(BusyError):
            embed(images(6), tiny_backbone(), tmp_path / "g")
        assert content(tmp_path / "g") == {}, "who is refused has not said whose features these are"


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text("precious")
    embed(images(5), tiny_backbone(), tmp_path / "f")
    for name in (LOCK, ".lock"):
        (tmp_path / "f" / name).unlink(missing_ok=True)
        (tmp_path / "f" / name).symlink_to(victim)
    with pytest.raises(InputError, match="a link, or something of somebody's"):
        embed(images(6), tiny_backbone(), tmp_path / "f")
    assert victim.read_text() == "precious"


def test_wrong_kinds(tmp_path: Path) -> None:
    texts = Source(Collection(pa.array(["a"]), Texts(pa.array(["x"])), np.array([-1]), ()), None)
    with pytest.raises(InputError, match="The source holds texts, but tiny takes images"):
        embed(texts, tiny_backbone(), tmp_path / "f")
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        embed(images(3), tiny_backbone(), tmp_path / "busy")
    with pytest.raises(InputError, match="number of workers is 0"):
        embed(images(3), tiny_backbone(), tmp_path / "g", workers=0)
    with pytest.raises(InputError, match="no engine 'magic'"):
        embed(images(3), tiny_backbone(), tmp_path / "g", engine="magic")
    with pytest.raises(InputError, match="holds no features"):
        open_features(tmp_path / "busy")


def test_vectors_and_texts(tmp_path: Path, npz) -> None:
    done = call_cli("embed", npz(), "--out", tmp_path / "v", "--json")
    assert done.code == 0, done.err
    assert (done.json["n"], done.json["dim"]) == (40, 5)
    x = read_source(tmp_path / "v").collection.items.x  # type: ignore[union-attr]
    np.testing.assert_allclose(x, read_source(npz()).collection.items.x, rtol=1e-3, atol=1e-3)  # type: ignore[union-attr]
    pytest.importorskip("transformers")
    manifest = tmp_path / "t.csv"
    manifest.write_text("text,label\nmy card is lost,card\nwhere is my card,\nopen an account,\n")
    done = call_cli("embed", manifest, "--out", tmp_path / "t", "--json")
    assert done.code == 0, done.err
    x = read_source(tmp_path / "t").collection.items.x  # type: ignore[union-attr]
    assert x.shape == (3, 384)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2]
    assert call_cli("embed", manifest, "--views", 2, "--out", tmp_path / "u").code == 2


def environment_of(process: psutil.Process) -> set[str]:
    try:
        return set(process.environ().values())
    except psutil.Error:  # it has ended meanwhile
        return set()


def test_openvino_gives_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    marker = str(tmp_path)
    monkeypatch.setenv("LTGCD_TEST_MARKER", marker)
    backbone = load_backbone("efficientnet_lite0", image_size=64)
    source = images(40)
    embed(source, backbone, tmp_path / "t", views=1)
    embed(source, backbone, tmp_path / "o", views=1, engine="openvino")
    embed(source, backbone, tmp_path / "w", views=1, engine="openvino", workers=2)
    everything = np.arange(40)
    for view in (0, 1):
        a, b, c = (open_features(tmp_path / name).take(everything, view).astype(np.float32) for name in "tow")
        assert np.abs(a - b).max() < 0.01 * np.abs(a).max()
        np.testing.assert_array_equal(b, c)  # in other processes to the last bit
    # Nobody is left behind: OpenVINO's reports to its makers came from forks of the workers that stayed.
    assert [process for process in psutil.process_iter() if marker in environment_of(process)] == []


def test_auto_takes_openvino_where_it_pays_and_stays_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lite, tiny = load_backbone("efficientnet_lite0", image_size=200), tiny_backbone()
    installed: list[str] = []
    monkeypatch.setattr(engines, "find_spec", lambda name: name if name in installed else None)
    assert engines.choose_engine("auto", lite, 10**6, None) == "torch"
    installed.append("openvino")
    # 40 million pixels are 1000 images of 200 × 200.
    assert engines.choose_engine("auto", lite, 1000, None) == "openvino"
    assert engines.choose_engine("auto", lite, 999, None) == "torch"
    assert engines.choose_engine("auto", tiny, 10**9, None) == "torch"
    assert engines.choose_engine("torch", lite, 10**6, "openvino") == "torch"
    assert engines.choose_engine("auto", lite, 10**6, "torch") == "torch"
    assert engines.choose_engine("auto", lite, 1, "openvino") == "openvino"
    # A folder that was begun goes on with its engine, however many there are by now; another one is refused.
    assert embed(images(5), tiny_backbone(), tmp_path / "f").store.key["engine"] == "torch"
    monkeypatch.setattr(engines, "EFFICIENTNETS", ("tiny",))
    monkeypatch.setattr(engines, "OPENVINO_PIXELS", 1)
    assert embed(images(9), tiny_backbone(), tmp_path / "f").store.key["engine"] == "torch"
    with pytest.raises(InputError, match="it differs in: engine"):
        embed(images(9), tiny_backbone(), tmp_path / "f", engine="openvino")


def with_smaller_shards() -> None:
    features_module.SHARD_ITEMS = 16


def test_whoever_is_killed_or_stopped_the_result_is_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of JPEGs with two broken files; `ltgcd embed` in workers: it is killed, then stopped, then loses one."""
    photos = tmp_path / "photos"
    for i in range(320):
        path = photos / ("unlabelled" if i % 2 else "cat") / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image_bytes(i, (80, 60), "JPEG"))
    (photos / "cat" / "0010.jpg").write_bytes(b"not a picture")
    truncated = photos / "unlabelled" / "0051.jpg"
    truncated.write_bytes(truncated.read_bytes()[:700])
    command = ["embed", photos, "--backbone", "efficientnet_lite0", "--image-size", 64, "--views", 1, "--json", "--out"]
    with monkeypatch.context() as patch:
        patch.setattr(features_module, "SHARD_ITEMS", 16)
        assert call_cli(*command, tmp_path / "whole").code == 0
    whole = content(tmp_path / "whole")
    assert len([name for name in whole if name.endswith(".npy")]) == 20
    cut = tmp_path / "cut"

    def started(shards: int) -> Forked:
        """The command in two workers, once it has finished some more shards."""
        before = len(list(cut.glob("shard-*.parquet")))
        process = Forked(*command, cut, "--workers", 2, before=with_smaller_shards, OMP_NUM_THREADS="1")
        while process.poll() is None and len(list(cut.glob("shard-*.parquet"))) < before + shards:
            time.sleep(0.02)
        return process

    def finished() -> dict[str, bytes]:
        return {name: data for name, data in content(cut).items() if name.startswith("shard-")}

    process = started(random.Random(0).randint(1, 4))
    workers = psutil.Process(process.pid).children()
    assert len(workers) == 2
    process.kill()
    process.communicate()
    assert psutil.wait_procs(workers, timeout=5)[1] == []
    kept = finished()
    assert {name: whole[name] for name in kept} == kept

    process = started(2)
    workers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "Stopped. What is finished is kept: run the same command again to go on."
    assert psutil.wait_procs(workers, timeout=5)[1] == []
    assert not list(cut.glob(".*.tmp"))
    assert kept.items() < finished().items()
    kept = finished()

    process = started(2)
    psutil.Process(process.pid).children()[0].kill()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "a worker process was killed (SIGKILL" in err
    done = json.loads(out)
    assert done["skipped_ids"] == ["cat/0010.jpg", "unlabelled/0051.jpg"]
    # What was finished is not redone; a shard is once its table, the second of its two files, is there.
    assert done["embedded"] == 320 - 16 * sum(name.endswith(".parquet") for name in kept)
    assert content(cut) == whole
