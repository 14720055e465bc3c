"""`CategoryDiscovery` keeps to scikit-learn's conventions."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
import tomli_w
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ltgcd import CategoryDiscovery
from ltgcd.common.errors import InputError
from ltgcd.data.digits import digits_source
from ltgcd.evaluation.metric import evaluate

# What scikit-learn asks of a classifier that makes no sense where -1 stands for "unlabelled".
NOT_FOR_US = {
    "check_classifiers_classes": "labels are whole numbers, -1 for unlabelled; this check trains on strings",
}


@parametrize_with_checks([CategoryDiscovery(epochs=1)], expected_failed_checks=lambda _estimator: NOT_FOR_US)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


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
    assert set(fitted.status_) == {"known", "novel"}
    assert np.array_equal(fitted.status_ == "known", fitted.labels_ < truth.n_old)
    assert ((fitted.confidence_ >= 0) & (fitted.confidence_ <= 1)).all()
    free = y < 0
    scores = evaluate(truth.y_true[free], fitted.labels_[free], truth.n_old)
    assert scores.balanced_acc.old > 70
    sizes = np.bincount(fitted.labels_[free], minlength=fitted.n_classes_)[truth.n_old :]
    assert (np.diff(sizes) <= 0).all(), "novel classes are numbered by falling size"


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


def test_save_and_load_without_pickle(digits, fitted, tmp_path):
    x, _, _ = digits
    fitted.save(tmp_path / "model")
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".safetensors", ".toml"}
    loaded = CategoryDiscovery.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    assert np.array_equal(loaded.predict(x), fitted.predict(x))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="damaged"):
        CategoryDiscovery.load(tmp_path / "model")
    with pytest.raises(InputError, match="no trained model"):
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


def test_parameters_that_are_none_come_back_as_none(fitted, tmp_path):
    fitted.save(tmp_path)
    assert CategoryDiscovery.load(tmp_path).get_params() == CategoryDiscovery().get_params()


def test_a_model_of_an_earlier_version_loads_without_its_parameters(digits, fitted, tmp_path):
    x, _, _ = digits
    fitted.save(tmp_path)
    path = tmp_path / "model.toml"
    described = tomllib.loads(path.read_text())
    del described["note"]["parameters"]
    path.write_text(tomli_w.dumps(described))
    loaded = CategoryDiscovery.load(tmp_path)
    assert loaded.get_params() == CategoryDiscovery(n_classes=fitted.n_classes_).get_params()
    assert np.array_equal(loaded.predict(x), fitted.predict(x))


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
    monkeypatch.setattr("ltgcd.estimator.estimate_k", lambda *_, **__: pytest.fail("estimated first"))
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
    model = CategoryDiscovery(n_classes=4, epochs=3).fit(
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


def test_update_of_a_loaded_model_or_with_bad_labels_is_a_sentence(digits, fitted, tmp_path):
    x, _, _ = digits
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match="fit it again"):
        CategoryDiscovery.load(tmp_path / "model").update(x[:5])
    for labels in ([0.5] * 5, [-2] * 5, [0] * 4, list("abcde")):
        with pytest.raises(InputError, match="y_new"):
            fitted.update(x[:5], labels)
