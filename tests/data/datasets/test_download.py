"""Downloads from a server on this machine: whole, resumed, refused, damaged; and archives that mean harm."""

import hashlib
import io
import re
import shutil
import tarfile
import threading
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ltgcd.common.errors import InputError
from ltgcd.data import datasets
from ltgcd.data.datasets import DATASETS, Archive, download, load_pool
from ltgcd.data.datasets.download import fetch, get, unpack

CONTENT = bytes(range(256)) * 20_000  # 5 MB: several blocks


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        path = self.path.split("?")[0]
        server.requests[path] += 1
        server.ranges.append(self.headers.get("Range"))
        if path in server.status:
            self.send_error(server.status[path].pop(0) if len(server.status[path]) > 1 else server.status[path][0])
            return
        content = server.files[path]
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        if path in server.no_range:
            start = 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = start + server.cut.pop(0) if server.cut else len(content)
        self.wfile.write(content[start:stop])  # a cut one ends too soon, as a broken connection does

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "PAUSE", 0.0)
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.files = {"/file.bin": CONTENT}
    running.status, running.no_range, running.cut = {}, set(), []
    running.requests, running.ranges = Counter(), []
    running.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def archive(server, file="file.bin", content=CONTENT, **changes) -> Archive:
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return replace(Archive(f"{server.url}/{file}", file, len(content), checksum), **changes)


def test_whole(server, tmp_path, capfd):
    path = fetch(archive(server), tmp_path / "new")
    assert path == tmp_path / "new/file.bin"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "file.bin" in err
    fetch(archive(server), tmp_path / "new", progress=False)  # there already
    assert server.requests["/file.bin"] == 1
    assert capfd.readouterr() == ("", "")


def test_md5(server, tmp_path):
    checksum = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert fetch(archive(server, checksum=checksum), tmp_path, progress=False).read_bytes() == CONTENT


def test_resumes_what_an_earlier_run_left(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1_234_567])
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1234567-"]


def test_a_complete_part_needs_no_server(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert not server.ranges


def test_goes_on_when_the_connection_breaks(server, tmp_path):
    server.cut = [2_000_000, 10, 1_500_000]
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=2000000-", "bytes=2000010-", "bytes=3500010-"]


def test_a_connection_that_always_breaks_keeps_the_part(server, tmp_path):
    server.cut = [1_000_000] + [0] * 20
    with pytest.raises(InputError, match=r"broke off .* run the same command again: it goes on after the 1\.0 MB"):
        fetch(archive(server), tmp_path, progress=False)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:1_000_000]
    server.cut = []
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT


def test_control_c_keeps_the_part(server, tmp_path, monkeypatch):
    real, blocks = download._read, iter(range(3))

    def interrupted(response):
        if next(blocks) == 2:
            raise KeyboardInterrupt
        return real(response)

    monkeypatch.setattr(download, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(archive(server), tmp_path, progress=False)
    kept = (tmp_path / "file.bin.part").read_bytes()
    assert 0 < len(kept) < len(CONTENT)
    assert CONTENT.startswith(kept)
    monkeypatch.setattr(download, "_read", real)
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={len(kept)}-"]


def test_a_server_without_ranges_starts_anew(server, tmp_path):
    server.no_range.add("/file.bin")
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]


def test_a_part_that_is_too_long_is_dropped(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT


def test_another_file_than_expected(server, tmp_path):
    server.files["/file.bin"] = b"<html>moved</html>"
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])  # longer than what the server has now: 416
    with pytest.raises(InputError, match=r"file\.bin from http://.* does not match its checksum and was removed"):
        fetch(archive(server), tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_checksum_mismatch(server, tmp_path):
    with pytest.raises(InputError, match=r"does not match its checksum .* by hand: Ask the author\."):
        fetch(archive(server, checksum="md5:" + "0" * 32), tmp_path, how="Ask the author.", progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "refuses access"), (401, "refuses access"), (404, "is no longer there"), (410, "is no longer there")],
)
def test_refusals(server, tmp_path, status, words):
    server.status["/file.bin"] = [status]
    with pytest.raises(InputError, match=rf"file\.bin {words} \({status}\); get it by hand: Ask\."):
        fetch(archive(server), tmp_path, how="Ask.", progress=False)
    assert server.requests["/file.bin"] == 1


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.status["/file.bin"] = [503, 500, 502]
    with pytest.raises(
        InputError, match=r"answers 502 .*check the network and the proxy, then run the same command again\.$"
    ):
        fetch(archive(server), tmp_path, progress=False)
    assert server.requests["/file.bin"] == download.ATTEMPTS
    del server.status["/file.bin"]
    assert fetch(archive(server), tmp_path, progress=False).read_bytes() == CONTENT


def test_no_server(server, tmp_path):
    gone = archive(server, url="http://127.0.0.1:9/file.bin")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/file\.bin can't be reached .*check the network"):
        fetch(gone, tmp_path, progress=False)


def test_no_room(server, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, 1_000_000))
    with pytest.raises(InputError, match=r"has 1\.0 MB of free space, but about 6\.1 MB are needed"):
        fetch(archive(server), tmp_path, progress=False)
    assert not server.ranges


# ---------------------------------------------------------------- unpacking


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(("file", "pack"), [("a.tar.gz", tar_of), ("a.tgz", tar_of), ("a.zip", zip_of)])
def test_unpack(tmp_path, file, pack):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/old.txt").write_text("old")
    (tmp_path / file).write_bytes(pack({"inner/x.txt": b"x", "y.txt": b"y"}))
    unpack(tmp_path / file, tmp_path)
    assert sorted(p.name for p in tmp_path.rglob("*.txt")) == ["old.txt", "x.txt", "y.txt"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize(("file", "pack"), [("a.tar.gz", tar_of), ("a.zip", zip_of)])
@pytest.mark.parametrize("member", ["../evil.txt", "inner/../../evil.txt", "/tmp/ltgcd-evil.txt"])
def test_archives_that_reach_outside_are_refused(tmp_path, file, pack, member):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / file).write_bytes(pack({"good.txt": b"x", member: b"evil"}))
    if file.endswith("gz") and member.startswith("/"):
        unpack(folder / file, folder)  # tarfile's filter strips the slash: it stays inside
        assert (folder / member.lstrip("/")).is_file()
    else:
        with pytest.raises(InputError, match=rf"{file} wants to write outside its folder"):
            unpack(folder / file, folder)
        assert [p.name for p in folder.iterdir()] == [file]
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize(("file", "pack"), [("a.tar.gz", tar_of), ("a.zip", zip_of)])
def test_damaged_archives(tmp_path, file, pack):
    content = pack({"x.bin": CONTENT[:100_000]})
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"{file} is damaged and can't be unpacked"):
        unpack(tmp_path / file, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [file]


# ---------------------------------------------------------------- a whole dataset


@pytest.fixture
def tiny_cub(server, monkeypatch):
    """CUB with two classes, in an archive on the server."""
    files = {
        "images.txt": b"1 a/1.jpg\n2 b/2.jpg\n3 a/3.jpg\n",
        "image_class_labels.txt": b"1 1\n2 2\n3 1\n",
        "train_test_split.txt": b"1 1\n2 1\n3 0\n",
        "classes.txt": b"1 a\n2 b\n",
        **{f"images/{image}": b"no image" for image in ("a/1.jpg", "b/2.jpg", "a/3.jpg")},
    }
    content = tar_of({f"CUB_200_2011/{name}": data for name, data in files.items()})
    server.files["/CUB.tgz"] = content
    dataset = replace(DATASETS["cub200"], n_classes=2, n_old=1, archives=(archive(server, "CUB.tgz", content),))
    monkeypatch.setitem(datasets.DATASETS, "cub200", dataset)
    return dataset


def test_get(server, tiny_cub, tmp_path):
    folder = get("cub200", tmp_path, progress=False)
    assert folder == tmp_path / "cub200"
    assert load_pool("cub200", tmp_path).y.tolist() == [0, 1]
    assert not (folder / "CUB.tgz").exists()
    assert get("cub200", tmp_path, progress=False) == folder
    assert server.requests["/CUB.tgz"] == 1  # the second call fetched nothing

    shutil.rmtree(folder / "CUB_200_2011")
    get("cub200", tmp_path, progress=False)
    assert server.requests["/CUB.tgz"] == 2
    assert load_pool("cub200", tmp_path, "test").y.tolist() == [0]


def test_get_leaves_alone_what_came_by_hand(server, tiny_cub, tmp_path):
    get("cub200", tmp_path / "elsewhere", progress=False)
    shutil.move(tmp_path / "elsewhere/cub200/CUB_200_2011", tmp_path / "CUB_200_2011")
    assert get("cub200", tmp_path, progress=False) == tmp_path / "CUB_200_2011"
    assert server.requests["/CUB.tgz"] == 1


def test_get_fetches_only_the_files_that_are_missing(server, tmp_path, monkeypatch):
    files = {
        "categories.json": b'["a", "b"]',
        "train.csv": b"text,category\nx,a\ny,b\n",
        "test.csv": b"text,category\nz,b\n",
    }
    server.files.update({f"/{name}": content for name, content in files.items()})
    archives = tuple(archive(server, name, content) for name, content in files.items())
    monkeypatch.setitem(datasets.DATASETS, "banking77", replace(DATASETS["banking77"], n_classes=2, archives=archives))
    (tmp_path / "banking77").mkdir()
    (tmp_path / "banking77/train.csv").write_bytes(files["train.csv"])
    get("banking77", tmp_path, progress=False)
    assert server.requests == {"/categories.json": 1, "/test.csv": 1}
    assert load_pool("banking77", tmp_path, "test").y.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("imagenet100", r"Accept the terms at https://www\.image-net\.org"),
        ("herbarium19", "AccessDenied.*kaggle"),
        ("plankton", "Log in to Kaggle"),
        ("stanford-cars", "original links are dead.*Kaggle.*Hugging Face"),
    ],
)
def test_get_says_how_where_a_script_may_not(tmp_path, name, words):
    with pytest.raises(InputError, match=rf"can't be fetched by a script; get it by hand: .*{words}"):
        get(name, tmp_path)


def test_get_states_the_size_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**12, 10**12, 50 * 10**9))
    with pytest.raises(InputError, match=r"has 50\.0 GB of free space, but about 281\.5 GB are needed"):
        get("inaturalist18", tmp_path)


def test_get_into_a_folder_that_is_none(tiny_cub, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"can't be written to .*LTGCD_DATA"):
        get("cub200", tmp_path / "file", progress=False)
