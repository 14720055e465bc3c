"""The losses against plain loops written from the equations of docs/methods.md §3 and §6, and against cases by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ltgcd.training.losses import (
    cross_entropy,
    info_nce,
    mean_entropy,
    mean_prediction,
    prior_alignment,
    self_distillation,
    soft_cross_entropy,
    sup_con,
    teacher_temperature,
)

Rows = list[list[float]]


def unit(seed: int, n: int, d: int = 4) -> torch.Tensor:
    x = torch.from_numpy(np.random.RandomState(seed).randn(n, d))
    return x / x.norm(dim=1, keepdim=True)


def cosines(seed: int, n: int, k: int) -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(seed).uniform(-1, 1, (n, k)))


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def slow_softmax(row: list[float], temperature: float) -> list[float]:
    exponentials = [math.exp(v / temperature) for v in row]
    return [e / sum(exponentials) for e in exponentials]


def slow_info_nce(z: Rows, temperature: float) -> float:
    n, total = len(z), 0.0
    for i in range(n):
        other = i + n // 2 if i < n // 2 else i - n // 2
        below = sum(math.exp(dot(z[i], z[j]) / temperature) for j in range(n) if j != i)
        total -= math.log(math.exp(dot(z[i], z[other]) / temperature) / below)
    return total / n


def slow_sup_con(z: Rows, y: list[int], temperature: float) -> float:
    n, total = len(z), 0.0
    for i in range(n):
        below = sum(math.exp(dot(z[i], z[j]) / temperature) for j in range(n) if j != i)
        alike = [j for j in range(n) if j != i and y[j] == y[i]]
        total -= sum(math.log(math.exp(dot(z[i], z[q]) / temperature) / below) for q in alike) / len(alike)
    return total / n


def slow_distillation(logits: Rows, tau_t: float, tau_s: float) -> float:
    half, total = len(logits) // 2, 0.0
    for a in range(half):
        for teacher, student in ((logits[a], logits[a + half]), (logits[a + half], logits[a])):
            q, p = slow_softmax(teacher, tau_t), slow_softmax(student, tau_s)
            total -= sum(x * math.log(v) for x, v in zip(q, p, strict=True))
    return total / (2 * half)


# ---------------------------------------------------------------- contrastive


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), items=st.integers(1, 6), temperature=st.sampled_from([0.07, 0.5, 1.0]))
def test_contrastive_losses_against_loops(seed: int, items: int, temperature: float) -> None:
    z = unit(seed, 2 * items)
    y = np.random.RandomState(seed).randint(0, 3, items).tolist() * 2
    assert float(info_nce(z, temperature)) == pytest.approx(slow_info_nce(z.tolist(), temperature), abs=1e-9)
    assert float(sup_con(z, torch.tensor(y), temperature)) == pytest.approx(
        slow_sup_con(z.tolist(), y, temperature), abs=1e-9
    )


def test_info_nce_by_hand() -> None:
    """Two items, their views equal, at right angles: each row sees e once and 1 twice."""
    z = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    assert float(info_nce(z)) == pytest.approx(-math.log(math.e / (math.e + 2)))
    assert float(info_nce(z[[0, 1, 1, 0]])) == pytest.approx(-math.log(1 / (math.e + 2)))  # the wrong way round
    assert float(info_nce(z[[0, 0]])) == 0.0  # nothing to tell it from


def test_sup_con_by_hand() -> None:
    z = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    apart, together = torch.tensor([0, 1, 0, 1]), torch.tensor([5, 5, 5, 5])
    e = math.exp(1 / 0.07)
    assert float(sup_con(z, apart)) == pytest.approx(-math.log(e / (e + 2)), abs=1e-6)
    assert float(sup_con(z, apart)) == pytest.approx(float(info_nce(z, 0.07)))  # one item a class: the same loss
    expected = -(math.log(e / (e + 2)) + 2 * math.log(1 / (e + 2))) / 3
    assert float(sup_con(z, together)) == pytest.approx(expected, rel=1e-6)


def test_defaults_are_the_authors() -> None:
    z, logits, y = unit(0, 8), cosines(1, 8, 3), torch.tensor([0, 1, 2, 0] * 2)
    assert float(info_nce(z)) == float(info_nce(z, 1.0))
    assert float(sup_con(z, y)) == float(sup_con(z, y, 0.07))
    assert float(cross_entropy(logits, y)) == float(cross_entropy(logits, y, 0.1))
    assert float(self_distillation(logits, 0.04)) == float(self_distillation(logits, 0.04, 0.1))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), items=st.integers(2, 6))
def test_the_order_of_items_and_the_names_of_classes_play_no_part(seed: int, items: int) -> None:
    random = np.random.RandomState(seed)
    order, names = random.permutation(items), random.permutation(4)
    both = torch.from_numpy(np.concatenate([order, items + order]))
    z, logits, y = unit(seed, 2 * items), cosines(seed, 2 * items, 4), torch.from_numpy(random.randint(0, 4, items))
    y = y.repeat(2)
    renamed = torch.from_numpy(names)[y]
    shuffled = torch.empty_like(logits)
    shuffled[:, names] = logits
    for a, b in (
        (info_nce(z), info_nce(z[both])),
        (sup_con(z, y), sup_con(z[both], renamed[both])),
        (cross_entropy(logits, y), cross_entropy(shuffled[both], renamed[both])),
        (self_distillation(logits, 0.04), self_distillation(shuffled[both], 0.04)),
        (self_distillation(logits, 0.04), self_distillation(logits.roll(items, 0), 0.04)),  # views swapped
    ):
        assert float(a) == pytest.approx(float(b), abs=1e-10)


def test_gradients_of_the_contrastive_losses() -> None:
    """Against central differences, and finite where a row has many equals."""
    y = torch.tensor([0, 1, 0] * 2)
    assert torch.autograd.gradcheck(info_nce, (unit(0, 6).requires_grad_(),))
    assert torch.autograd.gradcheck(lambda z: sup_con(z, y, 0.5), (unit(0, 6).requires_grad_(),))
    z = torch.ones(8, 2).div(2**0.5).requires_grad_()
    (info_nce(z) + sup_con(z, torch.zeros(8, dtype=torch.long))).backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_no_labelled_rows() -> None:
    """A batch without a labelled item has no supervised loss, and a gradient of zero."""
    z, logits = torch.randn(0, 4, requires_grad=True), torch.randn(0, 3, requires_grad=True)
    none = torch.empty(0, dtype=torch.long)
    total = sup_con(z, none) + cross_entropy(logits, none)
    assert total.detach().item() == 0.0
    total.backward()  # must not raise
    assert z.grad is not None
    assert z.grad.shape == (0, 4)


# ---------------------------------------------------------------- classification


def test_cross_entropy_by_hand() -> None:
    # Cosines 0.1 apart are a ratio of e at τ = 0.1.
    logits = torch.tensor([[0.5, 0.4], [0.2, 0.3]])
    expected = -(math.log(math.e / (1 + math.e)) + math.log(1 / (1 + math.e))) / 2
    assert float(cross_entropy(logits, torch.tensor([0, 0]))) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), items=st.integers(1, 5), k=st.integers(1, 6), tau=st.sampled_from([0.04, 0.07]))
def test_self_distillation_against_loops(seed: int, items: int, k: int, tau: float) -> None:
    logits = cosines(seed, 2 * items, k)
    expected = slow_distillation(logits.tolist(), tau, 0.1)
    assert float(self_distillation(logits, tau)) == pytest.approx(expected, abs=1e-9)


def test_the_teacher_has_no_gradient() -> None:
    """The gradient is that of the student alone, (p − q) / τ_s over the rows."""
    logits = cosines(0, 6, 4).requires_grad_()
    self_distillation(logits, 0.05).backward()
    assert logits.grad is not None
    with torch.no_grad():
        q = torch.softmax(logits / 0.05, 1).roll(3, 0)
        expected = (torch.softmax(logits / 0.1, 1) - q) / 0.1 / 6
    torch.testing.assert_close(logits.grad, expected)


def test_soft_cross_entropy_of_one_hot_targets_is_the_cross_entropy() -> None:
    logits, y = cosines(0, 6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    assert float(soft_cross_entropy(torch.eye(4)[y].double(), logits)) == pytest.approx(float(cross_entropy(logits, y)))


def test_mean_prediction_by_hand_and_over_no_rows() -> None:
    logits = torch.tensor([[0.1, 0.0], [0.0, 0.1], [0.1, 0.0]])
    e = math.e / (1 + math.e)
    np.testing.assert_allclose(mean_prediction(logits).numpy(), [(2 * e + 1 - e) / 3, (e + 2 - 2 * e) / 3], rtol=1e-5)
    assert mean_prediction(torch.empty(0, 4)).tolist() == [0.25] * 4


def test_mean_entropy_by_hand() -> None:
    assert float(mean_entropy(torch.full((8,), 1 / 8, dtype=torch.double))) == pytest.approx(0, abs=1e-12)
    assert float(mean_entropy(torch.tensor([1.0, 0, 0, 0]))) == pytest.approx(math.log(4))
    expected = math.log(3) + 0.5 * math.log(0.5) + 0.3 * math.log(0.3) + 0.2 * math.log(0.2)
    assert float(mean_entropy(torch.tensor([0.5, 0.3, 0.2]))) == pytest.approx(expected, rel=1e-5)
    assert float(mean_entropy(torch.ones(1))) == 0.0


def test_the_entropy_term_pushes_towards_the_uniform() -> None:
    """Its early printing had the sign wrong: a step down the gradient must raise the entropy."""
    logits = torch.tensor([[0.3, 0.0, 0.0], [0.4, 0.1, 0.0]], dtype=torch.double, requires_grad=True)
    before = mean_entropy(mean_prediction(logits))
    before.backward()
    assert logits.grad is not None
    assert (logits.grad[:, 0] > 0).all()
    after = mean_entropy(mean_prediction(logits.detach() - 0.01 * logits.grad))
    assert after < before.detach()


def test_prior_alignment_by_hand() -> None:
    prior, p_mean = torch.tensor([0.75, 0.25, 0.0]), torch.tensor([0.5, 0.25, 0.25])
    assert float(prior_alignment(prior, p_mean)) == pytest.approx(0.75 * math.log(2) + 0.25 * math.log(4))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 20))
def test_the_prior_is_where_the_alignment_is_least(seed: int, k: int) -> None:
    random = np.random.RandomState(seed)
    prior, other = (torch.from_numpy(random.dirichlet(np.ones(k))) for _ in range(2))
    assert float(prior_alignment(prior, prior)) <= float(prior_alignment(prior, other)) + 1e-12


def test_a_class_without_any_probability_leaves_the_gradient_finite() -> None:
    p = torch.tensor([1.0, 0.0], requires_grad=True)
    (mean_entropy(p) + prior_alignment(torch.tensor([1.0, 0.0]), p)).backward()
    assert p.grad is not None
    assert torch.isfinite(p.grad).all()
    assert p.grad[0] < 1  # log 1 + 1 − 1/1 = 0: nothing pulls at the class that has it all
    impossible = prior_alignment(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    assert math.isfinite(impossible)
    assert impossible > 40


# ---------------------------------------------------------------- teacher temperature


def test_teacher_temperature() -> None:
    assert teacher_temperature(0.0, 0.15) == pytest.approx(0.07)
    assert teacher_temperature(0.075, 0.15) == pytest.approx(0.055)
    assert teacher_temperature(0.1499999, 0.15) == pytest.approx(0.04, abs=1e-6)
    for done in (0.15, 0.5, 1.0):
        assert teacher_temperature(done, 0.15) == 0.04
    assert teacher_temperature(0.0, 0.0) == 0.04  # no warm-up


@settings(max_examples=30, deadline=None)
@given(warmup=st.floats(0, 1), a=st.floats(0, 1), b=st.floats(0, 1))
def test_the_teacher_only_ever_gets_sharper(warmup: float, a: float, b: float) -> None:
    first, second = (teacher_temperature(done, warmup) for done in sorted((a, b)))
    assert 0.07 >= first >= second >= 0.04 - 1e-12
