"""Projector and prototypes: shapes, starts, and what the cosines do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ltgcd.training.heads import CosinePrototypes, Head, projector


def test_projector_is_the_authors() -> None:
    torch.manual_seed(0)
    layers = projector(768)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in linear] == [(2048, 768), (2048, 2048), (256, 2048)]
    assert [type(layer).__name__ for layer in layers] == ["Linear", "GELU", "Linear", "GELU", "Linear"]
    for layer in linear:
        assert float(layer.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
        assert not layer.bias.detach().any()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 6), k=st.integers(1, 5))
def test_logits_are_cosines_whatever_the_lengths(seed: int, n: int, k: int) -> None:
    torch.manual_seed(seed)
    head, x = CosinePrototypes(7, k), torch.randn(n, 7)
    logits = head(x).detach().numpy()
    weight = head.weight.detach()
    for i in range(n):
        for c in range(k):
            a, b = x[i].double().numpy(), weight[c].double().numpy()
            assert logits[i, c] == pytest.approx(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b), abs=1e-5)
    with torch.no_grad():
        head.weight *= torch.rand(k, 1) * 100 + 0.01
        np.testing.assert_allclose(head(x * 37).numpy(), logits, atol=1e-5)


def test_random_prototypes_start_at_the_same_length_in_any_dimension() -> None:
    """As the authors' last layer, which is PyTorch's default: U(±1/√D), length 1/√3. Length sets how fast they turn."""
    torch.manual_seed(0)
    for dim in (64, 256, 768):
        lengths = CosinePrototypes(dim, 50).weight.detach().norm(dim=1)
        assert float(lengths.mean()) == pytest.approx(3**-0.5, rel=0.02)
        assert float(CosinePrototypes(dim, 50).weight.detach().abs().max()) <= dim**-0.5


def test_a_longer_prototype_turns_slower() -> None:
    torch.manual_seed(0)
    head, x = CosinePrototypes(5, 1), torch.randn(1, 5)
    gradients = []
    for factor in (1.0, 3.0):
        head.weight.grad = None
        with torch.no_grad():
            head.weight *= factor
        head(x).sum().backward()
        gradients.append(head.weight.grad.norm())
    assert float(gradients[0] / gradients[1]) == pytest.approx(3, rel=1e-4)


def test_start_from_given_directions() -> None:
    head = CosinePrototypes(4, 3)
    given_rows = np.array([[2.0, 0, 0, 0], [0, -5, 0, 0], [1, 1, 1, 1]])
    head.start_from(given_rows)
    expected = given_rows / np.linalg.norm(given_rows, axis=1, keepdims=True)
    np.testing.assert_allclose(head.weight.detach().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(head(torch.from_numpy(given_rows).float()).detach().numpy()), 1, atol=1e-6)
    assert head.weight.requires_grad
    assert isinstance(head.weight, nn.Parameter)


def test_a_prototype_without_a_direction_keeps_its_random_one() -> None:
    """The mean of an empty cluster is zero, and the gradient of a zero row's direction is 1e12 times too long."""
    torch.manual_seed(0)
    head = CosinePrototypes(4, 3)
    before = head.weight.detach().clone()
    head.start_from(np.array([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]))
    np.testing.assert_allclose(head.weight.detach()[1].numpy(), (before[1] / before[1].norm()).numpy(), rtol=1e-6)
    head(torch.randn(8, 4)).sum().backward()
    assert float(head.weight.grad.norm(dim=1).max()) < 10


def test_start_from_refuses_another_number_of_prototypes() -> None:
    """One row would otherwise be copied into all."""
    for shape in ((1, 4), (2, 4), (3, 5)):
        with pytest.raises(ValueError, match="Prototypes of shape"):
            CosinePrototypes(4, 3).start_from(np.ones(shape))


def test_head_projects_only_in_training_and_only_if_asked() -> None:
    torch.manual_seed(0)
    head, x = Head(6, 3, contrastive=True), torch.randn(5, 6)
    outputs = head.train()(x)
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {"logits": (5, 3), "z": (5, 256)}
    torch.testing.assert_close(outputs["z"].norm(dim=1), torch.ones(5))
    assert set(head.eval()(x)) == {"logits"}
    assert set(Head(6, 3, contrastive=False).train()(x)) == {"logits"}
    assert not any("projector" in name for name in Head(6, 3, contrastive=False).state_dict())
