from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from ltgcd.common.errors import InputError
from ltgcd.features.backbones import EFFICIENTNETS, NAMES, VITS, efficientnet_lite, load_backbone, vit
from ltgcd.features.backbones.embeddings import ResidualAdapter, feature_dropout, load_embeddings


def test_trunk_and_tail_start_as_the_identity() -> None:
    backbone = load_embeddings(5)
    x = torch.randn(7, 5, dtype=torch.float64)
    assert backbone.kind == "vector"
    assert backbone.activation_shape == (5,)
    assert backbone.dim == 5
    assert backbone.preprocessing is None
    activations = backbone.trunk(x)
    assert activations.dtype == torch.float32
    torch.testing.assert_close(backbone.tail(activations), x.float(), atol=0, rtol=0)


@pytest.mark.parametrize("shape", [(7, 4), (5,), (2, 5, 1)])
def test_vectors_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="rows of 5 numbers"):
        load_embeddings(5).trunk(torch.zeros(shape))


def test_adapter_is_h_plus_w_h_and_learns() -> None:
    adapter = ResidualAdapter(3)
    h = torch.randn(4, 3)
    adapter(h).square().sum().backward()
    gradient = adapter.linear.weight.grad
    assert gradient is not None
    torch.testing.assert_close(gradient, 2 * h.T @ h)
    w = torch.randn(3, 3)
    with torch.no_grad():
        adapter.linear.weight.copy_(w)
    torch.testing.assert_close(adapter(h), h + h @ w.T)
    assert [name for name, _ in adapter.named_parameters()] == ["linear.weight"]


def test_feature_dropout_keeps_the_expectation() -> None:
    x = torch.ones(400, 100)
    view = feature_dropout(x, 0.3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(view.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert abs(float((view == 0).float().mean()) - 0.3) < 0.01
    assert abs(float(view.mean()) - 1) < 0.02
    assert float(x.min()) == 1


def test_feature_dropout_is_seeded() -> None:
    x = torch.randn(10, 20)
    views = [feature_dropout(x, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(views[0], views[1])
    assert not torch.equal(views[0], views[2])
    assert torch.equal(feature_dropout(x, 0.0), x)
    for p in (-0.1, 1.0):
        with pytest.raises(InputError, match="dropout probability"):
            feature_dropout(x, p)


def test_fingerprint_depends_on_the_length_only() -> None:
    assert load_embeddings(5).fingerprint == load_embeddings(5).fingerprint
    assert load_embeddings(5).fingerprint != load_embeddings(6).fingerprint


def test_load_backbone_by_name() -> None:
    assert load_backbone("embeddings", dim=4).dim == 4
    with pytest.raises(InputError, match="needs dim"):
        load_backbone("embeddings")
    with pytest.raises(InputError, match="dim is 0"):
        load_backbone("embeddings", dim=0)
    with pytest.raises(InputError, match="no backbone called 'resnet50'") as caught:
        load_backbone("resnet50")
    assert all(name in str(caught.value) for name in NAMES)


def test_the_names_are_those_of_the_modules() -> None:
    assert set(EFFICIENTNETS) == set(efficientnet_lite.VARIANTS)
    assert set(VITS) == set(vit.VARIANTS)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("embeddings", {"dim": 4, "image_size": 32}),
        ("embeddings", {"dim": 4, "weights": "x"}),
        ("embeddings", {"dim": 4, "trained_blocks": 2}),
        ("minilm", {"image_size": 32}),
        ("minilm", {"dim": 4}),
        ("efficientnet_lite0", {"dim": 4}),
        ("dino_vitb16", {"dim": 4}),
    ],
)
def test_options_that_do_not_apply_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"{name}' has no {list(options)[-1]}; leave it out"):
        load_backbone(name, **options)  # type: ignore[arg-type]


def test_transformers_is_imported_for_those_who_need_it_only() -> None:
    code = (
        "import sys; from ltgcd.features.backbones import load_backbone\n"
        "load_backbone('embeddings', dim=3); load_backbone('efficientnet_lite0')\n"
        "assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
