"""Every form of source, its round trip, and that nothing but evaluation sees the truth."""

from __future__ import annotations

import dataclasses
import io
import json
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, call_cli, image_bytes, train
from ltgcd.common.errors import InputError
from ltgcd.data.collection import Collection, Source, Truth
from ltgcd.data.items import ImageBytes, ImageFiles, ParquetImages, Texts, Vectors
from ltgcd.data.labels import label_names, names_of, sorted_names
from ltgcd.data.npz import read_npz, write_npz
from ltgcd.data.parquet import read_parquet
from ltgcd.data.sources import Columns, read_source
from ltgcd.data.write_source import write_source
from ltgcd.run.directory import Run


def rows(collection: Collection) -> dict[str, str | None]:
    labels = names_of(collection.y, collection.class_names)
    return dict(zip(collection.ids.to_pylist(), labels.to_pylist(), strict=True))


def assert_same(a: Source, b: Source) -> None:
    assert a.collection.ids.equals(b.collection.ids)
    assert a.collection.class_names == b.collection.class_names
    np.testing.assert_array_equal(a.collection.y, b.collection.y)
    everything = np.arange(len(a.collection))
    left, right = a.collection.items.take(everything), b.collection.items.take(everything)
    if isinstance(left, np.ndarray):
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right
    assert (a.truth is None) == (b.truth is None)
    if a.truth is not None and b.truth is not None:
        assert a.truth.n_old == b.truth.n_old
        assert sorted(a.truth.class_names) == sorted(b.truth.class_names)
        # Novel classes are numbered by their sorted names when they are read: compare what the codes stand for.
        left, right = (names_of(t.y_true, t.class_names) for t in (a.truth, b.truth))
        assert left.equals(right)


# ---------------------------------------------------------------- forms


def test_folder_takes_classes_from_sub_folders(image_folder: Path) -> None:
    collection, truth = read_source(image_folder)
    assert rows(collection) == {
        "cat/a.png": "cat",
        "cat/b.png": "cat",
        "dog/c.jpg": "dog",
        "unlabelled/d.png": None,
        "unlabelled/deep/e.jpg": None,
    }
    assert truth is None
    assert collection.items.take(np.array([1])) == [(image_folder / "cat/b.png").read_bytes()]


def test_folder_here_and_names_with_line_ends(image_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (image_folder / "dog" / "two\nlines.png").write_bytes(image_bytes(9))
    monkeypatch.chdir(image_folder)
    assert rows(read_source(".").collection)["dog/two\nlines.png"] == "dog"


def test_folder_with_a_labels_csv(image_folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\ndog/c.jpg,hound\nunlabelled/d.png,fish\n")
    collection, truth = read_source(image_folder, labels)
    assert collection.class_names == ("fish", "hound")
    assert rows(collection)["cat/a.png"] is None
    # What the folder says of the others is truth now: it is for evaluation alone.
    assert truth is not None
    assert dict(zip(truth.ids.to_pylist(), names_of(truth.y_true, truth.class_names).to_pylist(), strict=True)) == {
        "cat/a.png": "cat",
        "cat/b.png": "cat",
        "dog/c.jpg": "dog",
        "unlabelled/d.png": None,
        "unlabelled/deep/e.jpg": None,
    }


def test_csv_of_paths_and_of_texts(image_folder: Path) -> None:
    manifest = image_folder.parent / "m.csv"
    manifest.write_text('path,label\nphotos/cat/a.png,cat\n"photos/unlabelled/d.png",\n')
    collection, _ = read_source(manifest)
    assert rows(collection) == {"photos/cat/a.png": "cat", "photos/unlabelled/d.png": None}
    assert isinstance(collection.items, ImageFiles)
    texts = image_folder.parent / "t.csv"
    texts.write_text('id,text,label\nx1,"two\nlines, and a comma",3\nx2,plain,\nx3,again,12.0\n', encoding="utf-8")
    collection, _ = read_source(texts)
    assert rows(collection) == {"x1": "3", "x2": None, "x3": "12"}
    assert collection.class_names == ("3", "12")  # numbers sort by value
    assert collection.items.take(np.array([0])) == ["two\nlines, and a comma"]


def write_hf(path: Path, labels: list[int], names: list[str], group: int = 2) -> None:
    image = [{"bytes": image_bytes(i), "path": f"{i}.png"} for i in range(len(labels))]
    table = pa.table(
        {"img": pa.array(image, pa.struct({"bytes": pa.binary(), "path": pa.string()})), "fine_label": labels}
    )
    info = {"info": {"features": {"img": {"_type": "Image"}, "fine_label": {"names": names, "_type": "ClassLabel"}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path, row_group_size=group)


def test_hugging_face_parquet(tmp_path: Path) -> None:
    write_hf(tmp_path / "hf.parquet", [1, -1, 0, 1, -1], ["ant", "bee"])
    collection, truth = read_source(tmp_path / "hf.parquet")
    assert rows(collection) == {"0.png": "bee", "1.png": None, "2.png": "ant", "3.png": "bee", "4.png": None}
    assert truth is None
    assert isinstance(collection.items, ParquetImages)
    # Any order across row groups, with repeats.
    wanted = [4, 0, 3, 4]
    assert collection.items.take(np.array(wanted)) == [image_bytes(i) for i in wanted]
    assert collection.select(np.array([4, 1])).items.take(np.array([0])) == [image_bytes(4)]


def test_npz(npz) -> None:
    collection, truth = read_source(npz(ids=np.array([f"v{i}" for i in range(40)])))
    assert collection.class_names == ("0", "1")
    assert collection.ids[3].as_py() == "v3"
    assert truth is not None
    assert truth.n_old == 2
    assert truth.class_names == ("0", "1", "2")


def test_npz_labels_need_not_be_contiguous(npz) -> None:
    true = np.repeat([7, 90, 5], [20, 12, 8])
    y = np.where((true != 5) & (np.arange(40) % 2 == 0), true, -1)
    collection, truth = read_source(npz(y=y, y_true=true))
    assert collection.class_names == ("7", "90")
    assert set(collection.y) == {-1, 0, 1}
    assert truth is not None
    assert truth.class_names == ("7", "90", "5")
    assert set(truth.y_true[true == 5]) == {2}


# ---------------------------------------------------------------- the truth is kept apart


def test_a_collection_knows_nothing_of_novel_classes(npz) -> None:
    collection, _ = read_source(npz(class_names=np.array(["ant", "bee", "secret"])))
    assert {field.name for field in dataclasses.fields(Collection)} == {"ids", "items", "y", "class_names"}
    assert collection.class_names == ("ant", "bee")
    assert "secret" not in repr(collection)


def test_only_evaluation_and_the_border_name_the_truth() -> None:
    """No method may even mention y_true: the modules that do are listed here, and a new one must be argued for."""
    package = ROOT / "src" / "ltgcd"
    allowed = {
        "data/collection.py",  # defines Truth
        "data/sources.py",  # reads it
        "data/write_source.py",  # writes it
        "data/splits.py",  # makes benchmark splits from fully labelled pools
        "evaluation/metric.py",
        "evaluation/diagnostic.py",  # what kind of errors there are, and what the true class means would give
        "evaluation/predictions.py",
        "run/evaluate.py",  # scores a finished run
        "run/folder.py",  # stores it beside a run, for evaluation
        "run/paths.py",  # says in which file of a run it is
        "run/labels.py",  # the table of a run's labels that holds it
        "bench/cells.py",  # scores finished runs, and λ of S with true labels
        "bench/reviewer.py",  # the oracle of the simulated review
        "bench/review_scores.py",  # its score
        "bench/density_map.py",  # draws it beside what was selected without it
    }
    words = ("y_true", ".truth", "Truth")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(word in line.split("#")[0] for line in path.read_text().splitlines() for word in words)
    }
    # These pass a Source on or ask whether there is a truth to score against; they never look into it.
    carriers = {
        *("run/train.py", "data/digits.py", "data/check.py", "features/embed.py", "cli/run.py", "cli/data.py"),
        "__init__.py",
    }
    assert found <= allowed | carriers, found - allowed - carriers
    assert not any("truth.y_true" in (package / name).read_text() for name in carriers)


def test_another_truth_changes_no_label(npz, tmp_path: Path) -> None:
    """The leak that counts: methods give the same answer whatever the truth says, or if there is none."""
    shuffled = np.random.RandomState(3).permutation(np.repeat([0, 1, 2], [20, 12, 8]))
    tables, estimates = [], []
    for name, truth in (("a", np.repeat([0, 1, 2], [20, 12, 8])), ("b", shuffled), ("c", None)):
        source = read_source(npz(f"{name}.npz", y_true=truth))
        train(source, tmp_path / name)
        tables.append(pq.read_table(tmp_path / name / "assignments.parquet"))
        estimates.append(json.loads((tmp_path / name / "k_estimate.json").read_text())["curve"])
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    assert estimates[0] == estimates[1] == estimates[2]


# ---------------------------------------------------------------- round trips


def test_an_array_with_any_broken_byte_in_its_header_is_a_sentence_or_is_read(tmp_path: Path) -> None:
    """Numpy reads the header as Python, which fails in many ways: of an open bracket an error of tokens is left."""
    plain = io.BytesIO()
    np.save(plain, np.zeros((4, 2), np.float32))
    whole, path, refused = plain.getvalue(), tmp_path / "x.npz", 0
    for at in range(128):
        for byte in b"([{'\"\\\n \x00\xff":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x.npy", whole[:at] + bytes([byte]) + whole[at + 1 :])
            try:
                read_npz(path)
            except InputError:
                refused += 1
    assert refused > 600


def test_round_trip_of_every_kind_of_item(tmp_path: Path, image_folder: Path) -> None:
    y, names = np.array([1, -1, 0, -1, -1]), ("zebra", "ant")  # not sorted
    ids = pa.array(list("edcba"), pa.string())
    truth = Truth(ids, np.array([1, 2, 0, -1, 3]), (*names, "new1", "new0"), 2)
    write_hf(tmp_path / "hf.parquet", [0] * 7, ["x"])
    files = pa.array(["cat/a.png", "dog/c.jpg", "unlabelled/d.png", "cat/b.png", "unlabelled/deep/e.jpg"], pa.string())
    stores = {
        "files.parquet": ImageFiles(image_folder, files),
        "rows.parquet": ParquetImages((tmp_path / "hf.parquet",), "img", np.array([6, 0, 3, 2, 5])),
        "bytes.parquet": ImageBytes(pa.array([image_bytes(i) for i in range(5)], pa.binary())),
        "texts.parquet": Texts(pa.array(["a", "", "c\nd", "é", "e"], pa.string())),
        "vectors.npz": Vectors(np.random.RandomState(0).randn(5, 3).astype(np.float16)),
    }
    for name, items in stores.items():
        source = Source(Collection(ids, items, y, names), truth)
        path = write_source(tmp_path / "deeper" / name, source)
        assert_same(source, read_source(path))
        without = Source(source.collection, None)
        assert_same(without, read_source(write_source(tmp_path / name, without)))


@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))),
)
def test_labels_survive_any_names(labels: list[str | None]) -> None:
    try:
        names = label_names(pa.array(labels, pa.string()), "here").to_pylist()
    except InputError as error:
        assert "mixes label types" in str(error)
        return
    for given_label, name in zip(labels, names, strict=True):
        if given_label is None or not given_label.strip():
            assert name is None
        elif name is not None and not name.isdigit():
            assert name == given_label.strip()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([2, -1, None, 0]), ["2", None, None, "0"]),
        (pa.array([2.0, float("nan"), None, 0.0]), ["2", None, None, "0"]),
        (pa.array(["a", None, " ", "a"]).dictionary_encode(), ["a", None, None, "a"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.nulls(2), [None, None]),
        (pa.array(["007", "7", "-1", ""]), ["007", "7", None, None]),  # a folder 007 and the label 007 are one class
        (pa.array(["12.0", "-1.0", "3."]), ["12", None, "3"]),
        (pa.array(["9" * 30, "5"]), ["9" * 30, "5"]),
        (pa.array(["²", "x"]), ["²", "x"]),
        (pa.array([2**64 - 1, None], pa.uint64()), [str(2**64 - 1), None]),
        (pa.array(np.array([3, -1, np.nan], np.float16)), ["3", None, None]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
    ],
)
def test_label_types(column: pa.Array, expected: list[str | None]) -> None:
    assert label_names(column, "here").to_pylist() == expected


def test_numbers_sort_by_value_and_other_digits_are_names() -> None:
    assert sorted_names(pa.array(["10", "9", "9" * 30, "007", None])) == ["007", "9", "10", "9" * 30]
    assert sorted_names(pa.array(["²", "1"])) == ["1", "²"]


@pytest.mark.parametrize("form", [">i8", "float16", "longdouble", "int8"])
def test_npz_labels_of_any_width_and_byte_order(npz, form: str) -> None:
    true = np.repeat([0, 1, 2], [20, 12, 8])
    y = np.where((true < 2) & (np.arange(40) % 2 == 0), true, -1)
    collection, truth = read_source(npz(y=y.astype(form), y_true=true.astype(form)))
    np.testing.assert_array_equal(collection.y, y)
    assert truth is not None
    np.testing.assert_array_equal(truth.y_true, true)


def test_npz_ids_may_be_bytes(npz) -> None:
    assert read_source(npz(ids=np.array([b"v%d" % i for i in range(40)]))).collection.ids[3].as_py() == "v3"


def test_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    """A byte order mark, line ends of another system, empty lines, and a cell larger than Arrow's block."""
    long = "word " * 600_000
    rows_ = f'\ufefftext,label\r\n\r\n"one",x\r\n"{long}",\r\n'
    (tmp_path / "m.csv").write_bytes(rows_.encode())
    collection, _ = read_source(tmp_path / "m.csv")
    assert collection.items.take(np.array([0, 1])) == ["one", long]
    assert list(rows(collection).values()) == ["x", None]


def test_more_than_two_gigabytes_of_text_fit(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("text,label\none,x\ntwo,\n")
    items = read_source(tmp_path / "m.csv").collection.items
    assert isinstance(items, Texts)
    assert pa.types.is_large_string(items.texts.type)  # a plain string array ends at 2 GB


def test_links_in_a_circle_are_followed_once(image_folder: Path) -> None:
    expected = read_source(image_folder).collection.ids
    for name in ("one", "two"):  # two of them would be 2^40 folders
        (image_folder / "unlabelled" / name).symlink_to("..", target_is_directory=True)
    assert read_source(image_folder).collection.ids.equals(expected)
    # Links into each other, and a folder that two classes share, are no circles at first sight.
    (image_folder / "cat" / "dogs").symlink_to("../dog", target_is_directory=True)
    (image_folder / "dog" / "cats").symlink_to("../cat", target_is_directory=True)
    ids = set(read_source(image_folder).collection.ids.to_pylist())
    assert ids == {*expected.to_pylist(), "cat/dogs/c.jpg", "dog/cats/a.png", "dog/cats/b.png"}


# ---------------------------------------------------------------- names come back as they were


def test_class_names_of_any_kind_survive_a_split_and_a_run(tmp_path: Path) -> None:
    names = ("007", "7", "other", " padded", "1.0")
    y = np.array([0, 1, 2, 3, 4, -1, -1])
    truth = Truth(pa.array(list("abcdefg")), np.array([0, 1, 2, 3, 4, 1, 5]), (*names, "-1"), 5)
    texts = Source(Collection(truth.ids, Texts(pa.array(list("abcdefg"))), y, names), truth)
    assert_same(texts, read_source(write_source(tmp_path / "t.parquet", texts)))
    x = np.random.RandomState(0).randn(7, 3).astype(np.float32)
    vectors = Source(Collection(truth.ids, Vectors(x), y, names), truth)
    train(vectors, tmp_path / "run", k=6)
    stored = Run(tmp_path / "run").labels()
    assert stored.class_names == names
    np.testing.assert_array_equal(stored.y, y)
    assert stored.truth is not None
    assert stored.truth.class_names == truth.class_names


def test_labels_of_a_folder_with_leading_zeros_match_a_labels_csv(tmp_path: Path) -> None:
    for number, name in enumerate(["001/a.png", "001/b.png", "002/c.png"]):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(image_bytes(number))
    (tmp_path / "labels.csv").write_text("id,label\n001/a.png,001\n")
    collection, truth = read_source(tmp_path / "photos", tmp_path / "labels.csv")
    assert collection.class_names == ("001",)
    assert truth is not None
    assert truth.y_true.tolist() == [0, 0, 1]


def test_other_ids_for_the_same_items(npz) -> None:
    source = read_source(npz())
    ids = pa.array([f"new-{i}" for i in range(40)])
    renamed = source.with_ids(ids)
    assert renamed.collection.ids.equals(ids)
    assert renamed.collection.items is source.collection.items
    assert renamed.truth is not None and source.truth is not None
    assert renamed.truth.ids.equals(ids)
    assert renamed.truth.y_true is source.truth.y_true
    assert Source(source.collection, None).with_ids(ids).truth is None


def test_a_truth_that_says_nothing_of_the_unlabelled_gives_no_scores(npz, tmp_path: Path) -> None:
    source = read_source(npz())
    for name, true in (("same", source.collection.y), ("none", np.full(40, -1))):
        result = train(read_source(npz(y_true=true)), tmp_path / name, k=3)
        assert result["acc"] is None
        assert result["k"] == 3


# ---------------------------------------------------------------- scale


def test_an_archive_is_that_of_numpy(tmp_path: Path) -> None:
    x = np.random.RandomState(0).randn(10, 3).astype(np.float32)
    write_npz(tmp_path / "a.npz", {"x": x, "y": np.arange(10)})
    np.savez(tmp_path / "b.npz", x=x, y=np.arange(10))
    ours, theirs = ((tmp_path / name).read_bytes() for name in ("a.npz", "b.npz"))
    assert ours[: len(theirs) - 2] == theirs[:-2] and theirs[-2:] == b"\0\0"  # but for the comment, a checksum


def test_a_large_row_group_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row group of 40 MB, as most tools write it: few of its images are in memory at a time."""
    random = np.random.RandomState(0)
    blobs = [None if i == 7 else random.bytes(20_000) for i in range(2000)]
    table = pa.table({"image": pa.array([{"bytes": b, "path": f"{i}.png"} for i, b in enumerate(blobs)])})
    pq.write_table(table, tmp_path / "one.parquet", data_page_size=1 << 16, write_batch_size=16)
    del table
    monkeypatch.setattr("ltgcd.data.parquet.GROUP_BYTES", 1 << 20)
    items = read_source(tmp_path / "one.parquet").collection.items
    before, most = pa.total_allocated_bytes(), 0
    for start in range(0, 2000, 16):
        wanted = np.arange(start, min(start + 16, 2000))
        assert items.take(wanted) == [blobs[i] or b"" for i in wanted]
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 8 << 20
    anywhere = np.array([1999, 3, 500, 3, 7, 0])  # back and forth, with a repeat
    assert items.take(anywhere) == [blobs[i] or b"" for i in anywhere]
    (tmp_path / "one.parquet").write_bytes((tmp_path / "one.parquet").read_bytes().replace(blobs[900][:9000], bytes(9)))
    with pytest.raises(InputError, match=r"one\.parquet"):
        items.take(np.arange(2000))


def test_a_million_rows_are_read_without_images(tmp_path: Path) -> None:
    """A manifest of a million parquet rows is read in seconds and in memory for its ids alone."""
    write_hf(tmp_path / "hf.parquet", [0, 1], ["a", "b"])
    n = 1_000_000
    table = pa.table(
        {
            "id": pa.array(np.arange(n)).cast(pa.string()),
            "path": pa.array(["hf.parquet#0", "hf.parquet#1"]).take(pa.array(np.arange(n) % 2)),
            "label": pa.array(["a", None]).take(pa.array(np.arange(n) % 2)),
        }
    )
    pq.write_table(table, tmp_path / "big.parquet")
    del table
    before, started = pa.total_allocated_bytes(), time.process_time()
    collection, _ = read_source(tmp_path / "big.parquet")
    assert time.process_time() - started < 20
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert len(collection) == n
    assert collection.labelled.sum() == n // 2
    assert collection.items.take(np.array([n - 1])) == [image_bytes(1)]


# ---------------------------------------------------------------- tables as other people write them


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_may_be_separated_by_semicolons_or_tabs(tmp_path: Path, mark: str) -> None:
    path = tmp_path / ("tickets.tsv" if mark == "\t" else "tickets.csv")
    rows = [("id", "text", "label"), ("1", '"a, b; c\td"', "ant"), ("2", "plain", ""), ("3", "more", "ant")]
    path.write_text("\n".join(mark.join(row) for row in rows))
    held = read_source(path).collection
    assert held.items.texts.to_pylist() == ["a, b; c\td", "plain", "more"]
    assert held.y.tolist() == [0, -1, 0]


def test_what_is_quoted_in_a_header_separates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text('"id";"text";"a, note"\n1;one;x\n2;two;y\n')
    assert read_source(path).collection.items.texts.to_pylist() == ["one", "two"]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_columns_of_other_names(tmp_path: Path, kind: str) -> None:
    """Who names a column means it: what is called like ours beside it is not taken."""
    table = pa.table(
        {
            "nr": ["7", "8", "9"],
            "body": ["one", "two", "three"],
            "topic": ["ant", None, "bee"],
            "label": ["x", "y", "z"],
        }
        | {"path": ["a.png", "b.png", "c.png"]}
    )
    path = tmp_path / f"tickets{kind}"
    (pq.write_table if kind == ".parquet" else pacsv.write_csv)(table, path)
    held = read_source(path, columns=Columns("body", "topic", "nr")).collection
    assert (held.ids.to_pylist(), held.items.texts.to_pylist()) == (["7", "8", "9"], ["one", "two", "three"])
    assert held.class_names == ("ant", "bee") and held.y.tolist() == [0, -1, 1]
    with pytest.raises(InputError, match="has no column 'subject'; its columns are"):
        read_source(path, columns=Columns(text="subject"))


def test_only_tables_have_columns_to_name(npz) -> None:
    with pytest.raises(InputError, match="is no table"):
        read_source(npz(), columns=Columns(label="topic"))


def test_columns_are_named_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("body;topic\none;ant\ntwo;\nthree;bee\n")
    done = call_cli("inspect", path, "--text-column", "body", "--label-column", "topic", "--json")
    assert (done.json["n"], done.json["n_labelled"], done.json["kind"]) == (3, 2, "text")


def test_a_parquet_file_with_any_broken_byte_in_its_footer_is_a_sentence_or_is_read(tmp_path: Path) -> None:
    """There the names of columns are, which Arrow decodes by itself: one that is no text is no error of Arrow's."""
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "y"], "label": ["l", None]}), tmp_path / "t.parquet")
    whole, refused = (tmp_path / "t.parquet").read_bytes(), 0
    footer = int.from_bytes(whole[-8:-4], "little")
    for at in range(len(whole) - 8 - footer, len(whole), 3):
        (tmp_path / "x.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        try:
            read_parquet(tmp_path / "x.parquet")
        except InputError:
            refused += 1
    assert refused > 20


def test_a_source_is_never_written_over_what_is_there(npz, tmp_path: Path) -> None:
    """`ltgcd.write_source` replaced any file, also a source that somebody had labelled meanwhile."""
    vectors = read_source(npz())
    texts = Source(Collection(pa.array(["a"]), Texts(pa.array(["x"])), np.array([-1]), ()), None)
    for name, source in (("mine.npz", vectors), ("mine.parquet", texts)):
        for _ in range(2):
            (tmp_path / name).write_bytes(b"precious")
            with pytest.raises(InputError, match=f"{name} is there already, and nothing is overwritten"):
                write_source(tmp_path / name, source)
            assert (tmp_path / name).read_bytes() == b"precious"
            (tmp_path / name).unlink()
            write_source(tmp_path / name, source)
