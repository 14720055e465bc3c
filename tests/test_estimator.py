"""`CategoryDiscovery` keeps to scikit-learn's conventions."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import ltgcd
from conftest import call_cli, data_of
from ltgcd import CategoryDiscovery
from ltgcd.common.errors import InputError
from ltgcd.data.digits import digits_source
from ltgcd.evaluation.metric import evaluate
from ltgcd.run.directory import Run
from ltgcd.run.train import config_of_run


@parametrize_with_checks([CategoryDiscovery(epochs=1, rehearsals=0, unlabelled=None)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@parametrize_with_checks([CategoryDiscovery()])
def test_scikit_learn_estimator_checks_with_the_defaults(estimator, check):
    """One check has -1 for a class of its own: all that is changed for it is that."""
    if check.func.__name__ == "check_classifiers_classes":
        estimator = clone(estimator).set_params(unlabelled=None)
    check(estimator)


def test_minus_one_is_unlabelled_also_beside_a_single_class(digits):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=3, epochs=1, rehearsals=0).fit(x, np.where(y == 1, 1, -1))
    assert model.classes_.tolist() == [1, 2, 3]


@pytest.fixture(scope="module")
def digits():
    source = digits_source()
    return source.collection.items.x, source.collection.y, source.truth


@pytest.fixture(scope="module")
def fitted(digits):
    x, y, _ = digits
    return CategoryDiscovery().fit(x, y)


def test_everything_a_user_asks_for_is_there(digits, fitted):
    x, y, truth = digits
    assert fitted.n_classes_ == fitted.k_estimate_.k == len(fitted.classes_)
    assert fitted.labels_.shape == fitted.confidence_.shape == fitted.status_.shape == (len(x),)
    assert np.array_equal(fitted.labels_[y >= 0], y[y >= 0]), "a labelled item keeps its label"
    assert set(fitted.status_) == {"known", "novel", "unsure"}
    sure = fitted.status_ != "unsure"
    assert np.array_equal((fitted.status_ == "known")[sure], (fitted.labels_ < truth.n_old)[sure])
    assert (fitted.status_[y >= 0] == "known").all(), "a labelled item is never unsure"
    assert ((fitted.confidence_ < 0.5) == ~sure)[y < 0].all()
    assert ((fitted.confidence_ >= 0) & (fitted.confidence_ <= 1)).all()
    free = y < 0
    scores = evaluate(truth.y_true[free], fitted.labels_[free], truth.n_old)
    assert scores.balanced_acc.old > 70
    sizes = np.bincount(fitted.labels_[free & sure], minlength=fitted.n_classes_)[truth.n_old :]
    assert (np.diff(sizes) <= 0).all(), "novel categories are numbered by falling number of sure items"


def test_prediction_agrees_with_the_fit(digits, fitted):
    x, y, _ = digits
    p = fitted.predict_proba(x)
    assert p.shape == (len(x), fitted.n_classes_)
    assert np.allclose(p.sum(axis=1), 1, atol=1e-5)
    # The collection's own items are confirmed by their neighbours, which a new item does without.
    assert 0.9 < (fitted.predict(x)[y < 0] == fitted.labels_[y < 0]).mean() < 1
    alone = CategoryDiscovery(n_classes=10, settings={"smoothing": 0}).fit(x, y)
    assert np.array_equal(alone.predict(x)[y < 0], alone.labels_[y < 0])


def test_the_same_seed_gives_the_same_labels(digits, fitted):
    x, y, _ = digits
    assert np.array_equal(clone(fitted).fit(x, y).labels_, fitted.labels_)


def test_labels_need_not_be_consecutive(digits):
    x, y, _ = digits
    numbers = np.array([3, 10, 11, 50, 51, 99, -1])
    model = CategoryDiscovery(n_classes=10, epochs=1).fit(x, numbers[y])
    assert model.classes_.tolist() == [3, 10, 11, 50, 51, 99, 100, 101, 102, 103]
    assert set(model.labels_) <= set(model.classes_)


def test_labels_of_any_kind(digits):
    x, y, _ = digits
    names = np.array(["ant", "bee", "cow", "dog", "eel", "fox", None], dtype=object)[y]
    model = CategoryDiscovery(n_classes=10, epochs=2, rehearsals=0).fit(x, y)
    for labels in (names.tolist(), pandas.Series(names), np.where(y < 0, np.nan, y)):
        other = CategoryDiscovery(n_classes=10, epochs=2, rehearsals=0).fit(pandas.DataFrame(x), labels)
        assert np.array_equal(other.confidence_, model.confidence_)
        assert np.array_equal(other.status_, model.status_)
    named = CategoryDiscovery(n_classes=10, epochs=2, rehearsals=0).fit(x, names)
    assert named.classes_.tolist() == [
        "ant",
        "bee",
        "cow",
        "dog",
        "eel",
        "fox",
        *(f"novel-{i:03d}" for i in range(1, 5)),
    ]
    assert set(named.predict(x[:50])) <= set(named.classes_)
    pairs = [(int(c), "x") if c >= 0 else None for c in y]
    tuples = CategoryDiscovery(n_classes=10, epochs=2, rehearsals=0).fit(x, pairs)
    assert tuples.labels_[int(np.flatnonzero(y == 3)[0])] == (3, "x")
    assert np.array_equal(tuples.confidence_, model.confidence_)


def test_a_class_called_like_a_novel_one_keeps_its_name(digits):
    x, y, _ = digits
    names = np.array(["novel-001", "bee", "cow", "dog", "eel", "fox", None], dtype=object)[y]
    model = CategoryDiscovery(n_classes=8, epochs=1, rehearsals=0).fit(x, names)
    assert len(set(model.classes_)) == 8


def test_a_table_of_assignments(digits, fitted, monkeypatch):
    x, _, _ = digits
    table = fitted.assignments()
    assert isinstance(table, pandas.DataFrame)
    assert table.columns.tolist() == ["id", "label", "status", "confidence"]
    assert np.array_equal(table["label"], fitted.labels_)
    ids = [f"item {i}" for i in range(len(x))]
    assert fitted.assignments(ids)["id"].tolist() == ids
    with pytest.raises(InputError, match="one for each"):
        fitted.assignments(ids[1:])
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert isinstance(fitted.assignments(), pa.Table)


def test_categories_tell_what_was_found(fitted):
    found = fitted.categories_
    assert [category.code for category in found] == sorted(category.code for category in found)
    assert sum(category.size + category.leaning for category in found) == len(fitted.labels_)
    novel = [category for category in found if category.status == "novel"]
    assert novel and all(category.nearest_known for category in novel if category.size)
    assert all(0 <= category.confidence <= 1 for category in found if category.size)


def test_a_page_from_python(digits, fitted, tmp_path):
    x, _, _ = digits
    texts = [f"digit number {i} <b>" for i in range(len(x))]
    page = fitted.report(tmp_path / "page.html", items=texts, title="Digits").read_text()
    assert "Digits" in page and "digit number 3" in page and "number 3 <b>" not in page
    with pytest.raises(InputError, match="one for each"):
        fitted.report(tmp_path / "page.html", items=texts[1:])


def test_what_is_not_unicode_is_one_sentence_and_leaves_no_folder(digits, fitted, tmp_path):
    """Ids of files whose names are no UTF-8 were a raw UnicodeEncodeError, and so were such labels and texts."""
    x, y, _ = digits
    bad = ["caf\udce9", *(f"d{i}" for i in range(1, len(x)))]
    for told, call in (
        ("an id", lambda: fitted.save(tmp_path / "model", ids=bad)),
        ("an id", lambda: fitted.report(tmp_path / "page.html", ids=bad)),
        ("an id", lambda: fitted.assignments(ids=bad)),
        ("a text", lambda: fitted.report(tmp_path / "page.html", items=bad)),
        ("a file name", lambda: fitted.report(tmp_path / "page.html", items=[Path(name) for name in bad])),
        ("a label", lambda: CategoryDiscovery().fit(x, np.where(np.asarray(y) == 0, "caf\udce9", "dog"))),
    ):
        with pytest.raises(InputError, match=rf"has {told} that is not UTF-8 \('.*caf\\udce9'\); correct it"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_page_from_python_is_that_of_the_run(digits, fitted, tmp_path):
    """With the same pictures: vectors that are the pixels of small images are shown as such."""
    page = data_of(fitted.report(tmp_path / "page.html", title="run").read_text())
    folder = fitted.save(tmp_path / "run")
    assert call_cli("report", folder).code == 0
    of_run = data_of((folder / "report.html").read_text())
    assert page["pictures"] == of_run["pictures"] and len(page["pictures"]) > 0
    assert page["meta"] == of_run["meta"]


def test_what_is_saved_is_a_run_and_knows_everything(digits, fitted, tmp_path):
    x, y, _ = digits
    folder = fitted.save(tmp_path / "model", ids=[f"d{i}" for i in range(len(x))])
    loaded = CategoryDiscovery.load(folder)
    for name in ("labels_", "confidence_", "status_", "classes_"):
        assert np.array_equal(getattr(loaded, name), getattr(fitted, name)), name
    assert (loaded.k_estimate_.low, loaded.k_estimate_.high) == (fitted.k_estimate_.low, fitted.k_estimate_.high)
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    new = x[:40] + np.float32(0.01)
    same = CategoryDiscovery.load(folder).update(new).labels_
    assert np.array_equal(same, clone(fitted).fit(x, y).update(new).labels_)
    done = call_cli("export", folder, "--format", "csv", "--out", tmp_path / "labels.csv", "--json")
    assert done.code == 0 and done.json["n"] == len(x), done.err
    assert call_cli("report", folder, "--json").code == 0
    with pytest.raises(InputError, match="another run"):
        CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, y).save(folder)


def test_a_run_of_the_command_can_be_loaded(digits, fitted, tmp_path):
    x, _, _ = digits
    source = ltgcd.write_source(tmp_path / "digits.npz", digits_source())
    assert call_cli("discover", source, "--out", tmp_path / "run").code == 0
    loaded = CategoryDiscovery.load(tmp_path / "run")
    assert loaded.classes_[:6].tolist() == list("012345")
    codes = {name: code for code, name in enumerate(loaded.classes_.tolist())}
    assert np.array_equal([codes[label] for label in loaded.labels_], fitted.labels_)
    assert np.array_equal(loaded.confidence_, fitted.confidence_)
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))


def test_damage_is_a_sentence(digits, fitted, tmp_path):
    folder = fitted.save(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="damaged"):
        CategoryDiscovery.load(folder)
    with pytest.raises(InputError, match="not a run directory"):
        CategoryDiscovery.load(tmp_path)


def test_a_loaded_model_knows_how_it_was_trained(digits, tmp_path):
    x, y, _ = digits
    made = CategoryDiscovery(
        n_classes=np.int64(10),
        method="simgcd",
        preset="paper",
        epochs=2,
        settings={"schedule.batch_size": np.int64(64), "whiten": False, "dropout": 0.1, "start": "semi-kmeans"},
        labels_from="elsewhere",
        random_state=3,
    ).fit(x, y)
    made.save(tmp_path)
    loaded = CategoryDiscovery.load(tmp_path)
    assert loaded.get_params() == made.get_params()
    assert np.array_equal(clone(loaded).fit(x, y).labels_, made.labels_)


def test_a_run_of_the_command_is_refined_as_it_was_trained(digits, tmp_path):
    """Its preset, settings and regime count again, as they do for ``ltgcd refine``, and not the defaults."""
    source = ltgcd.write_source(tmp_path / "digits.npz", digits_source())
    changed = ("--preset", "paper", "--set", "schedule.epochs=1", "--k", "10", "--seed", "3")
    assert call_cli("train", source, *changed, "--out", tmp_path / "run").code == 0
    held = digits_source().collection
    Run(tmp_path / "run").write_features(held.ids, held.items.x)
    loaded = CategoryDiscovery.load(tmp_path / "run")
    assert loaded._config == dataclasses.replace(config_of_run(Run(tmp_path / "run")), rehearsals=0)
    assert loaded._config.experiment.schedule.epochs == 1 and loaded._config.experiment.start == "random"
    again = CategoryDiscovery.load(loaded.save(tmp_path / "copy"))
    assert again._config == loaded._config


def test_the_page_counts_as_added_later_only_what_an_update_added(digits, tmp_path):
    x, y, _ = digits
    model = CategoryDiscovery(epochs=1, rehearsals=0).fit(x, y)
    assert "came later have added" not in model.report(tmp_path / "fitted.html").read_text()
    model.update(x[:5] + np.float32(0.02), ["hornet"] * 5)
    added = model.n_classes_ - model.k_estimate_.k
    assert added >= 1
    assert f"came later have added {added}" in model.report(tmp_path / "updated.html").read_text()
    again = CategoryDiscovery.load(model.save(tmp_path / "run"))
    again.refine({0: "wasp"})
    assert "came later have added" not in again.report(tmp_path / "refined.html").read_text(), "a fit begins anew"


def test_parameters_that_are_none_come_back_as_none(fitted, tmp_path):
    fitted.save(tmp_path)
    assert CategoryDiscovery.load(tmp_path).get_params() == CategoryDiscovery().get_params()


def test_labels_that_are_whole_numbers_come_back_as_numbers(digits, tmp_path):
    x, y, _ = digits
    numbers = np.array([3, 10, 11, 50, 51, 99, -1])
    made = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, numbers[y])
    made.update(x[:30] + np.float32(0.02), np.where(np.arange(30) < 5, 7, -1))
    loaded = CategoryDiscovery.load(made.save(tmp_path / "m"))
    assert loaded.classes_.tolist() == made.classes_.tolist()
    assert np.array_equal(loaded.labels_, made.labels_)
    assert np.array_equal(loaded.status_, made.status_)
    assert set(Run(tmp_path / "m").labels().class_names) == {"3", "10", "11", "50", "51", "99", "7"}


def test_labels_that_a_file_would_merge_or_change_are_refused_at_save(digits, tmp_path):
    """Classes 1 and "1" came back as one; tuples and dates came back as text."""
    x, y, _ = digits
    for known, sentence in (
        ([1, "1", "cow", "dog", "eel", "fox"], "1 and '1' are called the same"),
        ([(1, "q"), "bee", "cow", "dog", "eel", "fox"], "is tuple, which a file can't give back"),
        ([datetime.date(2026, 1, day) for day in range(1, 7)], "is date, which"),
    ):
        model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(
            x, [known[c] if c >= 0 else None for c in y]
        )
        with pytest.raises(InputError, match=sentence):
            model.save(tmp_path / "refused")
        assert not (tmp_path / "refused").exists()
    with pytest.raises(InputError, match="1 beside True"):
        CategoryDiscovery().fit(x, [[1, True, None][c % 3] if c >= 0 else None for c in y])


def test_labels_of_several_kinds_come_back_as_they_are(digits, tmp_path):
    x, y, _ = digits
    known = [7, "8", True, 2.5, "ant", "", None]
    known[5] = "False "
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, [known[c] for c in y])
    loaded = CategoryDiscovery.load(model.save(tmp_path / "run"))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert [type(label) for label in loaded.classes_] == [type(label) for label in model.classes_]
    assert loaded.labels_.tolist() == model.labels_.tolist()
    loaded.update(x[:6] + np.float32(0.01), [True, 2.5, 7, "8", "ant", None])
    assert loaded.n_classes_ == model.n_classes_, "none of them is another class"


def test_fit_predict_and_public_names(digits):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0)
    assert np.array_equal(model.fit_predict(x, y), model.labels_)
    assert {"CategoryDiscovery", "read_source", "evaluate", "discover"} <= set(dir(ltgcd))


def test_the_callers_random_numbers_are_left_alone(digits):
    import torch

    x, y, _ = digits
    torch.manual_seed(7)
    np.random.seed(7)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(7)
    np.random.seed(7)
    CategoryDiscovery(n_classes=10, epochs=1, rehearsals=1).fit(x, y)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])


def test_presets_and_settings_reach_the_training(digits):
    x, y, _ = digits
    plain = CategoryDiscovery(n_classes=10, epochs=2).fit(x, y)
    literal = CategoryDiscovery(n_classes=10, epochs=2, preset="literal").fit(x, y)
    changed = CategoryDiscovery(n_classes=10, epochs=2, settings={"adjustment": 0}).fit(x, y)
    assert not np.array_equal(plain.predict_proba(x), literal.predict_proba(x))
    assert not np.array_equal(plain.predict_proba(x), changed.predict_proba(x))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_classes": 3}, "from 6"),
        ({"n_classes": "many"}, "'auto' or a whole number"),
        ({"method": "magic"}, "no trained method 'magic'"),
        ({"preset": "best"}, "no preset 'best'"),
        ({"settings": {"selection.kk": 3}}, "no setting 'selection.kk'"),
        ({"settings": {1: 2}}, "settings are given by their names"),
        ({"settings": {"warmup": float("nan")}}, "'warmup' of the method is a number from 0, but is nan"),
        ({"labels_from": "moon"}, "not from 'moon'"),
        ({"random_state": None}, "random_state is a whole number from 0 to 4294967295, not None"),
        ({"random_state": 1.5}, "random_state is a whole number"),
        ({"random_state": -1}, "random_state is a whole number"),
        ({"random_state": np.random.RandomState(0)}, "random_state is a whole number"),
    ],
)
def test_bad_parameters_are_a_sentence(digits, changes, sentence):
    x, y, _ = digits
    with pytest.raises(InputError, match=sentence):
        CategoryDiscovery(**{"n_classes": 10, "epochs": 1, **changes}).fit(x, y)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"settings": {"schedule.batch_size": 63}}, "multiple of 2"),
        ({"settings": {"schedule.choose": "held-out", "held_out": 0.2}}, "checkpoints are kept"),
        ({"method": "gcd", "settings": {"start": "communities"}}, "'start' is random"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_before_the_estimate(digits, monkeypatch, changes, sentence):
    monkeypatch.setattr(
        "ltgcd.discovery.discover.estimate_class_number", lambda *_, **__: pytest.fail("estimated first")
    )
    x, y, _ = digits
    with pytest.raises(InputError, match=sentence):
        CategoryDiscovery(**changes).fit(x, y)


@pytest.mark.parametrize("factor", [1e18, 1e20])
@pytest.mark.parametrize("n_classes", [10, "auto"])
def test_vectors_whose_squares_overflow_are_a_sentence(digits, fitted, factor, n_classes):
    """At 1e18 each row still has a length, but the sum of their squares has none."""
    x, y, _ = digits
    with pytest.raises(InputError, match="too large for single precision"):
        CategoryDiscovery(n_classes=n_classes, epochs=1).fit(x * np.float32(factor), y)
    with pytest.raises(InputError, match="too large for single precision"):
        fitted.predict(x * np.float32(factor))


def test_bad_labels_are_a_sentence(digits):
    x, y, _ = digits
    with pytest.raises(InputError, match="No item is labelled"):
        CategoryDiscovery().fit(x, np.full(len(x), -1))
    with pytest.raises(InputError, match="0 or more"):
        CategoryDiscovery().fit(x, np.where(y == 0, -7, y))


def test_with_nothing_unlabelled_the_known_classes_are_all(digits):
    x, y, _ = digits
    known = y >= 0
    model = CategoryDiscovery(epochs=1).fit(x[known], y[known])
    assert model.n_classes_ == 6
    assert model.k_estimate_ is None


def test_update_keeps_what_is_there_and_appends_what_is_not():
    random = np.random.RandomState(0)
    centres = np.eye(6, 24) * 4
    true = np.arange(300) % 4
    x = (centres[true] + random.randn(300, 24) * 0.7).astype(np.float32)
    model = CategoryDiscovery(n_classes=4, epochs=3, rehearsals=0).fit(
        x, np.where((true < 3) & (random.rand(300) < 0.5), 5 * true, -1)
    )
    assert model.classes_.tolist() == [0, 5, 10, 11]
    before, status = model.labels_.copy(), model.status_.copy()
    new = np.concatenate([np.arange(40) % 4, np.full(20, 4), np.full(12, 5)])
    given = np.full(72, -1)
    given[0], given[60:62] = 10, 3  # against the evidence; and a class that nobody has heard of
    x_new = (centres[new] + random.randn(72, 24) * 0.7).astype(np.float32)
    model.update(x_new, given)
    assert model.classes_.tolist() == [0, 5, 10, 11, 3, 12]
    assert model.n_classes_ == 6
    assert np.array_equal(model.labels_[:300], before)
    assert np.array_equal(model.status_[:300], status)
    assert model.labels_[300] == 10
    assert (model.labels_[340:360] == 12).all()
    assert (model.labels_[360:] == 3).all()
    assert set(model.status_[360:362]) == {"known"}
    assert np.array_equal(model.predict(x_new[40:60]), np.full(20, 12))
    again = model.update((centres[[4] * 6] + random.randn(6, 24) * 0.7).astype(np.float32))
    assert again.n_classes_ == 6
    assert (again.labels_[-6:] == 12).all()
    model.update((centres[[5] * 6] + random.randn(6, 24) * 0.7).astype(np.float32))
    assert set(zip(model.labels_[-6:], model.status_[-6:], strict=True)) == {(3, "known")}, "named once, known for good"


def test_bad_labels_of_an_update_are_a_sentence(digits):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, y)
    for labels, sentence in (([0.5] * 5, "Unknown label type"), ([-2] * 5, "0 or more"), ([0] * 4, "inconsistent")):
        with pytest.raises(InputError, match=sentence):
            model.update(x[:5], labels)


def test_a_data_frame_keeps_its_index_and_columns(digits, tmp_path):
    x, y, _ = digits
    frame = pandas.DataFrame(x[:200], index=[f"row {i}" for i in range(200)], columns=[f"c{i}" for i in range(64)])
    model = CategoryDiscovery(n_classes=8, epochs=1, rehearsals=0).fit(frame, y[:200])
    assert model.assignments()["id"].tolist() == frame.index.tolist()
    loaded = CategoryDiscovery.load(model.save(tmp_path / "m"))
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    assert loaded.assignments()["id"].tolist() == frame.index.tolist()


def test_score_asks_labelled_items_only(digits, fitted):
    x, y, _ = digits
    known = y >= 0
    expected = float((fitted.predict(x[known]) == y[known]).mean())
    assert fitted.score(x, np.where(known, y, np.nan)) == pytest.approx(expected)
    with pytest.raises(InputError, match="nothing to score"):
        fitted.score(x[:5], [None] * 5)


def test_empty_strings_are_no_class(digits):
    x, y, _ = digits
    labels = np.array(["ant", "bee", "cow", "dog", "eel", "fox", ""], dtype=object)[y]
    with pytest.raises(InputError, match="unlabelled=''"):
        CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, labels)
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0, unlabelled="").fit(x, labels)
    assert "" not in model.classes_


def test_a_page_replaces_only_a_page(fitted, tmp_path):
    (tmp_path / "thesis.html").write_text("years of work")
    with pytest.raises(InputError):
        fitted.report(tmp_path / "thesis.html")
    assert (tmp_path / "thesis.html").read_text() == "years of work"
    fitted.report(tmp_path / "page.html", title="First")
    fitted.report(tmp_path / "page.html", title="Second")
    assert "Second" in (tmp_path / "page.html").read_text()


def test_saving_again_does_not_undo_an_update(digits, tmp_path):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, y)
    folder = model.save(tmp_path / "m")
    np.savez(tmp_path / "new.npz", x=x[:20] + np.float32(0.01), ids=[f"n{i}" for i in range(20)])
    assert call_cli("update", folder, tmp_path / "new.npz").code == 0
    with pytest.raises(InputError, match="updated"):
        model.save(folder)
    assert len(Run(folder).assignments()) == len(x) + 20


def test_saving_again_does_not_undo_a_review(digits, tmp_path):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, y)
    folder = model.save(tmp_path / "m")
    assert model.save(folder) == folder, "nobody said anything yet"
    rows = np.flatnonzero(model.status_ == "novel")[:8]
    (tmp_path / "wasps.csv").write_text("id,label\n" + "".join(f"{row},wasp\n" for row in rows))
    assert call_cli("relabel", folder, tmp_path / "wasps.csv").code == 0
    for then in (None, "refine"):
        assert then is None or call_cli(then, folder).code == 0
        before = Run(folder).assignments()
        assert before.column("name").to_pylist().count("wasp") >= 8
        with pytest.raises(InputError, match="reviewed"):
            model.save(folder)
        assert Run(folder).assignments().equals(before)


def test_refine_in_python(digits):
    x, y, _ = digits
    ids = [f"d{i}" for i in range(len(x))]
    frame = pandas.DataFrame(x, index=ids)
    model = CategoryDiscovery(n_classes=10, epochs=2, rehearsals=0).fit(frame, y)
    before = model.assignments().set_index("id")
    novel = next(label for label in model.classes_[::-1] if (before.label == label).sum() > 20)
    other = next(i for i in ids if before.label[i] != novel and before.status[i] == "novel")
    unlabelled = [i for i, given in zip(ids, y, strict=True) if given == -1 and before.label[i] == novel][:10]
    told = {**dict.fromkeys(unlabelled[:8], "wasp"), unlabelled[8]: "junk", other: novel, "nobody": "wasp"}
    with pytest.warns(UserWarning, match="no item has the id 'nobody'"):
        assert model.refine(told) is model
    after = model.assignments().set_index("id")
    assert (after.label[unlabelled[:8]] == "wasp").all() and (after.status[unlabelled[:8]] == "known").all()
    assert after.status[unlabelled[8]] == "junk" and after.label[other] == novel
    assert model.refinement_["kept"] == 9 and len(model.refinement_["refused"]) == 1
    labelled = [i for i, given in zip(ids, y, strict=True) if given != -1]
    assert (after.label[labelled] == before.label[labelled]).all(), "labels of the fit stay, too"
    assert set(model.predict(x[:50])) <= set(model.classes_)
    # A second time, on top: what was said is still known, and categories are renamed by a table.
    table = pandas.DataFrame({"category": ["wasp"], "name": ["hornet"]})
    model.refine(table)
    again = model.assignments().set_index("id")
    assert (again.label[unlabelled[:8]] == "hornet").all() and again.status[unlabelled[8]] == "junk"


def test_a_refined_model_is_saved_and_loaded(digits, tmp_path):
    x, y, _ = digits
    model = CategoryDiscovery(n_classes=10, epochs=1, rehearsals=0).fit(x, y)
    row = int(np.flatnonzero(model.status_ == "novel")[0])
    model.refine({row: "wasp", row + 1: "junk"})
    again = CategoryDiscovery.load(model.save(tmp_path / "m"))
    assert again.labels_.tolist() == model.labels_.tolist() and again.status_.tolist() == model.status_.tolist()
    assert again.predict(x).tolist() == model.predict(x).tolist()
    assert again.refine({row + 2: "wasp"}).labels_[row] == "wasp"
