"""Selection against slow code written from docs/methods.md §6, §7.2: both presets, CReST, floor, prior, edges."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.common.errors import InputError
from ltgcd.graph.feature_graph import FeatureGraph
from ltgcd.training.loop import Snapshot
from ltgcd.training.losses import teacher_temperature
from ltgcd.training.methods.ltgcd import LTGCD, LTGCDConfig
from ltgcd.training.selection import (
    LITERAL,
    Selection,
    SelectionConfig,
    crest_confident,
    neighbour_graphs,
    prior,
    select,
)

DEFAULT = SelectionConfig()
PLAIN = SelectionConfig(density="classifier", floor=0.0, k=3, k_s=6)


def blobs(
    sizes: tuple[int, ...] = (60, 40, 25, 15, 10, 6), d: int = 8, noise: float = 0.25, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, cosines to the true class means, labels of half of the items of half of the classes, and the truth."""
    random = np.random.RandomState(seed)
    true = np.repeat(np.arange(len(sizes)), sizes)
    centres = random.randn(len(sizes), d) / np.sqrt(d)
    x = (centres[true] + noise * random.randn(len(true), d)).astype(np.float32)
    logits = unit(x) @ unit(centres).T
    y = np.where((true < len(sizes) // 2) & (np.arange(len(true)) % 2 == 0), true, -1)
    return x, logits, y, true


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def slow_softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    p = [[math.exp((v - max(row)) / temperature) for v in row] for row in logits.tolist()]
    return np.array([[v / sum(row) for v in row] for row in p])


def slow_select(
    x: np.ndarray, logits: np.ndarray, y: np.ndarray, tau: float, config: SelectionConfig
) -> tuple[set[int], set[int]]:
    """S_conf and S_dens from the equations, item by item, without CReST or calibration."""
    n, p, z = len(y), slow_softmax(logits, tau), unit(x.astype(np.float64))
    confident = {i for i in range(n) if y[i] == -1 and p[i].max() >= config.confidence}
    pool = [i for i in range(n) if y[i] == -1 or config.pool == "all"]

    def near(i: int, k: int) -> list[int]:
        return sorted((j for j in pool if j != i), key=lambda j: (-float(z[i] @ z[j]), j))[:k]

    def e(i: int, j: int) -> float:
        return 1.0 if config.density == "affinity" else 2 * float(p[i] @ p[j]) - 1

    d = {i: np.mean([e(i, j) * float(z[i] @ z[j]) for j in near(i, config.k)]) for i in pool}
    above = (lambda a, b: a > b) if config.peak_test == "strict" else (lambda a, b: a >= b)
    peaks = [i for i in pool if y[i] == -1 and all(above(d[i], d[j]) for j in near(i, config.k))]

    def overlap(i: int, j: int) -> bool:
        a, b = set(near(i, config.k_s)), set(near(j, config.k_s))
        iou = len(a & b) / len(a | b)
        return 1 - iou < config.lam - 1e-9 if config.overlap == "jaccard-distance" else iou > config.lam + 1e-9

    if not config.suppress:
        return confident, set(peaks)
    if config.rule == "literal":  # as printed: the denser of two that overlap is dropped
        return confident, {i for i in peaks if not any(j != i and overlap(i, j) and d[i] > d[j] for j in peaks)}
    kept: list[int] = []
    for i in sorted(peaks, key=lambda i: -d[i]):
        if not any(overlap(i, j) for j in kept):
            kept.append(i)
    return confident, set(kept)


def rows(mask: np.ndarray) -> set[int]:
    return set(np.flatnonzero(mask).tolist())


# ---------------------------------------------------------------- the sets


@pytest.mark.parametrize(
    "config",
    [
        PLAIN,
        dataclasses.replace(PLAIN, pool="all"),
        dataclasses.replace(PLAIN, density="affinity"),
        dataclasses.replace(PLAIN, suppress=False),
        dataclasses.replace(PLAIN, lam=0.95),
        dataclasses.replace(LITERAL, k=3, k_s=6, lam=0.2),
        dataclasses.replace(LITERAL, k=3, k_s=6, lam=0.05),
        LITERAL,
    ],
    ids=["default", "pool-all", "affinity", "no-nmds", "jaccard-0.95", "literal-0.2", "literal-0.05", "literal"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_against_slow_code(config: SelectionConfig, seed: int) -> None:
    x, logits, y, _ = blobs((40, 25, 15, 10, 7, 5), seed=seed, noise=0.35)
    for tau in (0.04, 0.1):
        got = select(x, logits, y, tau, config)
        confident, dense = slow_select(x, logits, y, tau, config)
        assert (rows(got.confident), rows(got.dense)) == (confident, dense)
        assert rows(got.selected) == confident | dense
        assert dense
        assert np.array_equal(got.pseudo, logits.argmax(axis=1))
        assert got.density == config.density


@pytest.mark.parametrize("config", [PLAIN, DEFAULT, dataclasses.replace(DEFAULT, pool="all"), LITERAL])
def test_graphs_may_be_those_of_other_features(config: SelectionConfig) -> None:
    """What is selected then is what those features would give: the features of now decide nothing."""
    x, logits, y, _ = blobs(noise=0.35)
    now = np.random.RandomState(1).randn(*x.shape)
    given = select(now, logits, y, 0.04, config, neighbour_graphs(FeatureGraph(x), y, config))
    assert rows(given.dense) == rows(select(x, logits, y, 0.04, config).dense)
    assert rows(given.dense) != rows(select(now, logits, y, 0.04, config).dense)


@pytest.mark.parametrize("graph", ["start", "epoch"])
def test_which_features_the_method_looks_for_neighbours_in(graph: str) -> None:
    x, logits, y, _ = blobs(noise=0.35)
    now = np.random.RandomState(1).randn(*x.shape).astype(np.float32)
    config = SelectionConfig(graph=graph)  # type: ignore[arg-type]
    method = LTGCD(y, LTGCDConfig(selection=config), FeatureGraph(x))
    plan = method.plan(0.5, lambda: Snapshot(now, {"logits": logits.astype(np.float32)}))
    tau = teacher_temperature(0.5, LTGCDConfig().base.teacher_warmup)
    expected = select(x if graph == "start" else now, logits.astype(np.float32), y, tau, config)
    assert rows(plan.sets["dense"]) == rows(expected.dense)
    assert expected.dense.any()


def test_no_graph_is_made_that_nobody_asks_for() -> None:
    x, _, y, _ = blobs()
    for selection, warmup in ((SelectionConfig(graph="start", sets="all"), 0.3), (SelectionConfig(graph="start"), 2.0)):
        assert LTGCD(y, LTGCDConfig(selection=selection, warmup=warmup), FeatureGraph(x)).graphs is None
    all_labelled = np.zeros(len(y), dtype=np.int64)
    assert LTGCD(all_labelled, LTGCDConfig(selection=SelectionConfig(graph="start")), FeatureGraph(x)).graphs is None


def test_the_two_presets_are_what_methods_says() -> None:
    assert (DEFAULT.rule, DEFAULT.overlap, DEFAULT.lam, DEFAULT.peak_test) == (
        "greedy",
        "jaccard-distance",
        0.8,
        "strict",
    )
    assert (DEFAULT.k, DEFAULT.k_s, DEFAULT.confidence, DEFAULT.pool) == (10, 30, 0.8, "unlabelled")
    assert DEFAULT.graph == LITERAL.graph == "epoch"
    assert (DEFAULT.prior, DEFAULT.smoothing, DEFAULT.floor, DEFAULT.crest) == ("l1", 1.0, 0.1, "off")
    assert (LITERAL.rule, LITERAL.overlap, LITERAL.peak_test, LITERAL.density) == ("literal", "iou", "ge", "classifier")
    assert (LITERAL.prior, LITERAL.smoothing, LITERAL.floor) == ("softmax", 0.0, 0.0)
    assert (LITERAL.k, LITERAL.k_s, LITERAL.confidence) == (10, 30, 0.8)


def test_nmds_order_of_the_presets() -> None:
    """Greedy keeps the densest of a group of overlapping peaks, the printed rule the least dense."""
    x, logits, y, _ = blobs((120, 60), noise=0.5)
    config = dataclasses.replace(PLAIN, k=2, k_s=12, density="affinity")
    every = rows(select(x, logits, y, 0.04, dataclasses.replace(config, suppress=False)).dense)
    greedy = rows(select(x, logits, y, 0.04, config).dense)
    literal = rows(select(x, logits, y, 0.04, dataclasses.replace(config, rule="literal")).dense)
    assert greedy < every
    assert literal < every
    z = unit(x[y == -1].astype(np.float64))
    d = np.sort(z @ z.T, axis=1)[:, -3:-1].mean(axis=1)
    density = dict(zip(np.flatnonzero(y == -1).tolist(), d.tolist(), strict=True))
    assert np.mean([density[i] for i in greedy]) > np.mean([density[i] for i in literal])
    assert max(every, key=lambda i: density[i]) in greedy - literal


def test_direction_of_lambda() -> None:
    """A larger λ leaves fewer peaks as a Jaccard distance, as the paper's table says, and more as an IoU."""
    x, logits, y, _ = blobs((120, 60), noise=0.5)
    sizes: dict[str, list[int]] = {"jaccard-distance": [], "iou": []}
    for overlap, found in sizes.items():
        for lam in (0.3, 0.6, 0.9):
            config = dataclasses.replace(PLAIN, k=2, k_s=12, overlap=overlap, lam=lam)
            found.append(int(select(x, logits, y, 0.04, config).dense.sum()))
    distance, iou = sizes["jaccard-distance"], sizes["iou"]
    assert distance[0] >= distance[1] >= distance[2] < distance[0]
    assert iou[0] <= iou[1] <= iou[2] > iou[0]


@pytest.mark.parametrize("sets", ["both", "confident", "dense", "all"])
def test_which_sets(sets: str) -> None:
    x, logits, y, _ = blobs()
    got = select(x, logits, y, 0.1, dataclasses.replace(PLAIN, sets=sets))
    whole = select(x, logits, y, 0.1, PLAIN)
    expected = {
        "both": whole.confident | whole.dense,
        "confident": whole.confident,
        "dense": whole.dense,
        "all": y == -1,
    }[sets]
    assert np.array_equal(got.selected, expected)
    assert got.density == ("classifier" if sets in ("both", "dense") else "none")
    assert np.array_equal(got.prior, prior(np.bincount(got.pseudo[expected], minlength=6), PLAIN))


@pytest.mark.parametrize("config", [DEFAULT, LITERAL, dataclasses.replace(DEFAULT, pool="all", crest="quota")])
def test_never_a_labelled_item_and_never_anything_learnt_from_hidden_labels(config: SelectionConfig) -> None:
    x, logits, y, _ = blobs()
    got = select(x, logits, y, 0.04, config)
    for mask in (got.selected, got.confident, got.dense):
        assert not mask[y != -1].any()
    assert got.selected.any()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 1e3]), preset=st.sampled_from(["default", "lit"]))
def test_rows_and_classes_in_any_order_and_features_of_any_length(seed: int, scale: float, preset: str) -> None:
    config = dataclasses.replace(DEFAULT if preset == "default" else LITERAL, k=4, k_s=8)
    x, logits, y, _ = blobs((30, 20, 12, 8), seed=seed)
    random = np.random.RandomState(seed)
    order, names = random.permutation(len(y)), random.permutation(4)
    renamed = np.empty_like(logits)
    renamed[:, names] = logits
    labels = np.where(y >= 0, names[y], -1)
    a = select(x, logits, y, 0.05, config)
    b = select(scale * x[order], renamed[order], labels[order], 0.05, config)
    for name in ("selected", "confident", "dense"):
        assert np.array_equal(getattr(a, name)[order], getattr(b, name))
    assert np.array_equal(names[a.pseudo][order], b.pseudo)
    np.testing.assert_allclose(a.prior, b.prior[names], atol=1e-12)


def test_duplicates_are_one_peak_or_all() -> None:
    """``strict`` takes one of several equal images, ``ge`` as printed makes a peak of each."""
    x, logits, y, _ = blobs((20, 20))
    copies = np.flatnonzero(y == -1)[:5]
    x[copies], logits[copies] = x[copies[0]], logits[copies[0]]
    config = dataclasses.replace(PLAIN, k=3, suppress=False, density="affinity")
    assert np.array_equal(np.flatnonzero(select(x, logits, y, 0.04, config).dense[copies]), [0])
    assert select(x, logits, y, 0.04, dataclasses.replace(config, peak_test="ge")).dense[copies].all()


@pytest.mark.parametrize("config", [DEFAULT, LITERAL], ids=["default", "literal"])
def test_a_single_unlabelled_item_and_none_and_no_labelled_one(config: SelectionConfig) -> None:
    x, logits, y, true = blobs((6, 5))
    only = true.copy()
    only[3] = -1
    assert rows(select(x, logits, only, 0.04, config).selected) == {3}
    nothing = select(x, logits, true, 0.04, config)
    assert not nothing.selected.any()
    np.testing.assert_allclose(nothing.prior, [0.5, 0.5])
    assert nothing.imbalance(nothing.pseudo) == {"confident": 1.0, "dense": 1.0, "selected": 1.0}
    unlabelled = select(x, logits, np.full_like(y, -1), 0.04, config)
    assert unlabelled.selected.any()
    one = np.full_like(y, -1)
    one[0] = 0
    assert not select(x, logits, one, 0.04, config).selected[0]


@pytest.mark.parametrize("config", [DEFAULT, LITERAL], ids=["default", "literal"])
def test_one_class_and_fewer_items_than_neighbours(config: SelectionConfig) -> None:
    x, _, y, _ = blobs((12,))
    y[:3] = 0
    got = select(x, np.ones((12, 1)), y, 0.04, config)
    assert np.array_equal(got.confident, y == -1)
    assert got.prior.tolist() == [1.0]
    assert got.dense.sum() >= 1
    assert got.summary()["lambda_selected"] == 1.0


# ---------------------------------------------------------------- density that notices


def test_a_diffuse_classifier_is_noticed_and_sharpened() -> None:
    """At τ_t = 1 cosines say nothing: e_ij ≈ −1, and as printed the outliers are the peaks (docs/methods.md §10.2)."""
    x, logits, y, true = blobs((150, 120, 100, 80, 60, 40, 30, 20), d=16, noise=0.12)
    mended = select(x, logits, y, 1.0, dataclasses.replace(DEFAULT, floor=0.0))
    literal = select(x, logits, y, 1.0, dataclasses.replace(DEFAULT, floor=0.0, density="classifier"))
    alone = select(x, logits, y, 1.0, dataclasses.replace(DEFAULT, floor=0.0, density="affinity"))
    assert (mended.density, literal.density, alone.density) == ("calibrated", "classifier", "affinity")
    assert "which would turn it over; at 0." in mended.why
    assert literal.why == alone.why == "", "what was asked for needs no reason"
    assert mended.summary()["density_why"] == mended.why
    means = unit(np.stack([x[true == c].mean(axis=0) for c in range(8)]))
    closeness = (unit(x) * means[true]).sum(axis=1)
    typical = np.median(closeness[y == -1])
    assert closeness[mended.dense].mean() > typical > closeness[literal.dense].mean()
    assert closeness[alone.dense].mean() > typical
    assert len(set(true[mended.dense])) == 8  # a peak in every class, the tail too


def test_a_good_classifier_is_used_as_it_is() -> None:
    x, logits, y, _ = blobs()
    got = select(x, logits, y, 0.04, DEFAULT)
    assert (got.density, got.why) == ("classifier", "")
    assert np.array_equal(
        got.dense, select(x, logits, y, 0.04, dataclasses.replace(DEFAULT, density="classifier")).dense
    )


def test_a_classifier_that_knows_nothing_or_cannot_be_checked_is_left_out() -> None:
    x, logits, y, _ = blobs()
    noise = np.random.RandomState(0).uniform(-1, 1, logits.shape)
    few = np.where(np.arange(len(y)) < 3, y, -1)
    none, words = np.full(len(y), -1), ("no temperature mends that", "too few to check it by", "no item is labelled")
    for values, labels, said in zip((noise, logits, logits), (y, few, none), words, strict=True):
        got = select(x, values, labels, 1.0, DEFAULT)
        assert said in got.why
        alone = select(x, values, labels, 1.0, dataclasses.replace(DEFAULT, density="affinity"))
        assert got.density == "affinity"
        assert np.array_equal(got.dense, alone.dense)


# ---------------------------------------------------------------- floor


def test_the_floor_adds_the_most_confident_that_are_left() -> None:
    x, logits, y, _ = blobs()
    config = dataclasses.replace(PLAIN, sets="dense", floor=0.5)
    few = select(x, logits, y, 0.04, dataclasses.replace(config, floor=0.0)).selected
    got = select(x, logits, y, 0.04, config).selected
    unlabelled = y == -1
    assert got.sum() == math.ceil(0.5 * unlabelled.sum()) > few.sum()
    assert got[few].all()
    sure = slow_softmax(logits, 0.04).max(axis=1).astype(np.float32)
    assert sure[got & ~few].min() >= sure[unlabelled & ~got].max()
    whole = select(x, logits, y, 0.04, dataclasses.replace(config, floor=1.0)).selected
    assert np.array_equal(whole, unlabelled)


def test_the_floor_is_counted_exactly() -> None:
    """0.07 · 100 is a hair above 7 in floating point."""
    x = np.random.RandomState(0).randn(101, 4)
    y = np.r_[0, np.full(100, -1)]
    config = SelectionConfig(sets="confident", confidence=1.0, floor=0.07)
    assert select(x, np.zeros((101, 3)), y, 0.1, config).selected.sum() == 7
    assert rows(select(x, np.zeros((101, 3)), y, 0.1, config).selected) == set(range(1, 8))  # ties: the first


# ---------------------------------------------------------------- CReST


def slow_crest(
    sure: np.ndarray, pseudo: np.ndarray, unlabelled: np.ndarray, k: int, config: SelectionConfig
) -> set[int]:
    members = {c: [i for i in range(len(sure)) if unlabelled[i] and pseudo[i] == c] for c in range(k)}
    present = sorted((c for c in range(k) if members[c]), key=lambda c: (-len(members[c]), c))
    head, taken = len(members[present[0]]) if present else 0, set()
    for rank, c in enumerate(present):
        mu = (len(members[present[len(present) - 1 - rank]]) / head) ** config.crest_alpha
        ranked = sorted(members[c], key=lambda i: (-sure[i], i))
        if config.crest == "quota":
            able = [i for i in ranked if sure[i] >= config.confidence]
            taken |= set(able[: math.ceil(mu * len(able) - 1e-9)])
        elif config.crest == "threshold":
            least = max(0.5, float(sure[ranked[math.ceil(mu * len(ranked) - 1e-9) - 1]]))
            taken |= {i for i in ranked if sure[i] >= least}
        else:
            taken |= {i for i in ranked if sure[i] >= config.confidence * (len(ranked) / head) ** config.crest_alpha}
    return taken


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 60),
    k=st.integers(1, 8),
    alpha=st.sampled_from([0.0, 1 / 3, 1.0]),
    steps=st.sampled_from([4, 1000]),
)
def test_crest_against_slow_code(seed: int, n: int, k: int, alpha: float, steps: int) -> None:
    """With few steps of confidence there are many ties."""
    random = np.random.RandomState(seed)
    pseudo = (k * random.rand(n) ** 3).astype(np.int64)
    sure = (random.randint(0, steps + 1, n) / steps).astype(np.float64)
    unlabelled = random.rand(n) < 0.8
    for rule in ("quota", "threshold", "threshold-scaled"):
        config = SelectionConfig(crest=rule, crest_alpha=alpha, confidence=0.6)
        got = crest_confident(sure, pseudo, unlabelled, k, config)
        assert rows(got) == slow_crest(sure, pseudo, unlabelled, k, config)
        assert got.dtype == bool


def test_crest_by_hand() -> None:
    """Counts 8, 2, 1 and α = 1: shares 1/8, 2/8, 1 by rank, so 1 of 8, 1 of 2 and 1 of 1."""
    pseudo = np.repeat([2, 0, 3], [8, 2, 1])  # class 1 has nothing, and does not count as the tail
    sure = np.linspace(0.99, 0.81, 11)
    config = SelectionConfig(crest="quota", crest_alpha=1.0)
    assert rows(crest_confident(sure, pseudo, np.ones(11, dtype=bool), 4, config)) == {0, 8, 10}
    scaled = dataclasses.replace(config, crest="threshold-scaled")
    low = np.array([0.9, 0.79] + [0.7] * 6 + [0.21, 0.19] + [0.11])  # ε: 0.8, 0.8 · 2/8 and 0.8 · 1/8
    assert rows(crest_confident(low, pseudo, np.ones(11, dtype=bool), 4, scaled)) == {0, 8, 10}
    threshold = dataclasses.replace(config, crest="threshold")
    low[1] = 0.9  # as sure as the first: a threshold takes both or neither
    assert rows(crest_confident(low, pseudo, np.ones(11, dtype=bool), 4, threshold)) == {0, 1}


def test_the_rarest_class_is_taken_whole_and_the_head_by_its_cube_root() -> None:
    """METHODS: λ = 10 takes 46 % of the head."""
    pseudo = np.repeat([0, 1], [1000, 100])
    sure = np.full(1100, 0.95)
    got = crest_confident(sure, pseudo, np.ones(1100, dtype=bool), 2, SelectionConfig(crest="quota"))
    assert got[pseudo == 1].all()
    assert got[pseudo == 0].sum() == math.ceil(1000 * 0.1 ** (1 / 3)) == 465


def test_crest_changes_s_conf_and_leaves_s_dens_alone() -> None:
    x, logits, y, true = blobs((200, 100, 40, 20), noise=0.1)
    plain = select(x, logits, y, 0.04, DEFAULT)
    quota = select(x, logits, y, 0.04, dataclasses.replace(DEFAULT, crest="quota"))
    assert np.array_equal(plain.dense, quota.dense)
    assert quota.confident.sum() < plain.confident.sum()
    assert not (quota.confident & ~plain.confident).any()
    assert quota.imbalance(true)["confident"] < 0.7 * plain.imbalance(true)["confident"]


# ---------------------------------------------------------------- prior


def test_prior_by_hand() -> None:
    counts = np.array([6, 3, 0])
    np.testing.assert_allclose(prior(counts, DEFAULT), [7 / 12, 4 / 12, 1 / 12])
    np.testing.assert_allclose(prior(counts, dataclasses.replace(DEFAULT, smoothing=0.0)), [6 / 9, 3 / 9, 0])
    e = [math.exp(6), math.exp(3), 1.0]
    np.testing.assert_allclose(prior(counts, LITERAL), [v / sum(e) for v in e])
    e = [math.exp(6 / 9), math.exp(3 / 9), 1.0]
    np.testing.assert_allclose(
        prior(counts, dataclasses.replace(DEFAULT, prior="softmax-normalised")), [v / sum(e) for v in e]
    )


def test_the_literal_prior_is_nearly_one_hot_and_the_normalised_one_nearly_uniform() -> None:
    """docs/methods.md §6.3 c: counts up to 200, λ = 4.5, 100 classes: 0.98 on one class, or a ratio of 1.015."""
    counts = np.round(200 * 4.5 ** (-np.arange(100) / 99)).astype(np.int64)
    literal = prior(counts, LITERAL)
    assert literal[0] > 0.9
    assert -(literal[literal > 0] * np.log(literal[literal > 0])).sum() < 0.3
    flat = prior(counts, dataclasses.replace(LITERAL, prior="softmax-normalised"))
    assert flat.max() / flat.min() == pytest.approx(1.015, abs=0.003)
    assert prior(counts, dataclasses.replace(DEFAULT, smoothing=0)).max() == pytest.approx(200 / counts.sum())


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 10**5), min_size=1, max_size=12),
    form=st.sampled_from(["l1", "softmax", "softmax-normalised"]),
    smoothing=st.sampled_from([0.0, 1.0]),
)
def test_any_prior_is_a_distribution_in_the_order_of_the_counts(counts: list[int], form: str, smoothing: float) -> None:
    got = prior(np.array(counts), SelectionConfig(prior=form, smoothing=smoothing))
    assert got.dtype == np.float64
    assert got.sum() == pytest.approx(1)
    assert (got >= 0).all()
    assert (np.diff(got[np.argsort(counts)]) >= -1e-12).all()
    if not sum(counts):
        np.testing.assert_allclose(got, 1 / len(counts))


def test_the_literal_preset_on_nothing_is_empty_and_uniform() -> None:
    """A classifier that is sure of nothing: S is S_dens, and with S_dens switched off nothing."""
    x, logits, y, _ = blobs()
    got = select(x, logits, y, 5.0, dataclasses.replace(LITERAL, sets="confident"))
    assert not got.selected.any()
    np.testing.assert_allclose(got.prior, 1 / 6)
    assert got.summary()["n_selected"] == 0


# ---------------------------------------------------------------- λ


def test_imbalance_by_hand() -> None:
    classes = np.array([0, 0, 0, 0, 1, 1, 2, -1])
    selected, confident = np.ones(8, dtype=bool), np.array([1, 1, 1, 0, 1, 0, 0, 0], dtype=bool)
    dense = np.array([0, 0, 0, 0, 1, 0, 1, 1], dtype=bool)
    made = Selection(selected, confident, dense, np.maximum(classes, 0), np.ones(3) / 3, "classifier")
    assert made.imbalance(classes) == {"confident": 3.0, "dense": 1.0, "selected": 4.0}
    summary = made.summary()  # with pseudo labels: the last item is of class 0 there
    assert {name: summary[name] for name in summary if name.startswith("n_")} == {
        "n_confident": 4,
        "n_dense": 3,
        "n_selected": 8,
    }
    assert (summary["lambda_confident"], summary["lambda_dense"], summary["lambda_selected"]) == (3.0, 1.0, 5.0)
    assert (summary["classes_confident"], summary["classes_dense"], summary["classes_selected"]) == (2, 3, 3)
    assert summary["density"] == "classifier"


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sets": "neither"}, "'sets' of the selection is one of both, confident, dense, all, not 'neither'"),
        ({"density": "kde"}, "'density' .* is one of classifier, calibrated, affinity, not 'kde'"),
        ({"pool": "du"}, "'pool' .* is one of unlabelled, all"),
        ({"peak_test": ">"}, "'peak_test' .* is one of strict, ge"),
        ({"rule": "soft"}, "'rule' .* is one of greedy, flip, literal"),
        ({"overlap": "dice"}, "'overlap' .* is one of jaccard-distance, iou"),
        ({"crest": "on"}, "'crest' .* is one of off, quota, threshold, threshold-scaled"),
        ({"prior": "log"}, "'prior' .* is one of l1, softmax, softmax-normalised"),
        ({"confidence": 80}, "'confidence' .* lies between 0 and 1, but is 80"),
        ({"lam": -0.1}, "'lam' .* lies between 0 and 1"),
        ({"lam": float("nan")}, "'lam' .* lies between 0 and 1, but is nan"),
        ({"floor": 1.5}, "'floor' .* lies between 0 and 1"),
        ({"k": 0}, "'k' .* is a number from 1, but is 0"),
        ({"k_s": -3}, "'k_s' .* is a number from 1"),
        ({"crest_alpha": -1.0}, "'crest_alpha' .* is a number from 0"),
        ({"smoothing": float("inf")}, "'smoothing' .* is a number from 0, but is inf"),
        ({"smoothing": float("nan")}, "'smoothing' .* is a number from 0, but is nan"),
    ],
)
def test_wrong_settings(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(DEFAULT, **changes)
