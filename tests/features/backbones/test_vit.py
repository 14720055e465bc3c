"""The split ViT against an unsplit one, against `transformers`, and against broken files."""

import argparse
import math
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ltgcd.common.errors import InputError
from ltgcd.features.backbones import vit
from ltgcd.features.backbones.preprocessing import Preprocessing
from ltgcd.features.backbones.vit import Block, Variant, build_vit, interpolate_positions, load_vit

DINO = Variant("tiny_dino", "someone/tiny-dino", 48, 3, 3, 16, 64)
DINOV2 = Variant("tiny_dinov2", "someone/tiny-dinov2", 48, 3, 3, 16, 64, layer_scale=True)
REGISTERS = Variant("tiny_reg", "someone/tiny-reg", 48, 3, 3, 16, 64, layer_scale=True, registers=4)
TINY = (DINO, DINOV2, REGISTERS)


@pytest.fixture(autouse=True)
def tiny_variants(monkeypatch):
    for variant in TINY:
        monkeypatch.setitem(vit.VARIANTS, variant.name, variant)


def random_weights(variant, seed=0):
    """Weights in the authors' naming, large enough for peaked attention and visible biases."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, std, mean=0.0):
        return mean + std * torch.randn(*shape, generator=generator)

    dim, patch, positions = variant.dim, variant.patch, 1 + (variant.native_size // variant.patch) ** 2
    state = {
        "cls_token": normal(1, 1, dim, std=0.5),
        "pos_embed": normal(1, positions, dim, std=0.5),
        "patch_embed.proj.weight": normal(dim, 3, patch, patch, std=1 / math.sqrt(3 * patch**2)),
        "patch_embed.proj.bias": normal(dim, std=0.1),
        "norm.weight": normal(dim, std=0.1, mean=1),
        "norm.bias": normal(dim, std=0.1),
    }
    if variant.registers:
        state["register_tokens"] = normal(1, variant.registers, dim, std=0.5)
    for i in range(variant.depth):
        for norm in ("norm1", "norm2"):
            state[f"blocks.{i}.{norm}.weight"] = normal(dim, std=0.1, mean=1)
            state[f"blocks.{i}.{norm}.bias"] = normal(dim, std=0.1)
        for layer, rows, columns in (
            ("attn.qkv", 3 * dim, dim),
            ("attn.proj", dim, dim),
            ("mlp.fc1", 4 * dim, dim),
            ("mlp.fc2", dim, 4 * dim),
        ):
            std = 1.5 / math.sqrt(columns) if layer == "attn.qkv" else 0.7 / math.sqrt(columns)
            state[f"blocks.{i}.{layer}.weight"] = normal(rows, columns, std=std)
            state[f"blocks.{i}.{layer}.bias"] = normal(rows, std=0.2)
        if variant.layer_scale:
            state[f"blocks.{i}.ls1.gamma"] = normal(dim, std=0.1, mean=0.7)
            state[f"blocks.{i}.ls2.gamma"] = normal(dim, std=0.1, mean=0.7)
    return state


def reference(state, images, variant, first_block=0, tokens=None):
    """The unsplit model, every row of every block, straight from the definition.

    Returns the CLS feature and the tokens that enter `first_block` (or starts from given `tokens` there).
    """

    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    def linear(x, name):
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    start = first_block if tokens is not None else 0
    if tokens is None:
        p, b = variant.patch, len(images)
        rows = images.shape[2] // p
        patches = images.reshape(b, 3, rows, p, rows, p).permute(0, 2, 4, 1, 3, 5).reshape(b, rows * rows, -1)
        patches = patches @ state["patch_embed.proj.weight"].flatten(1).T + state["patch_embed.proj.bias"]
        tokens = torch.cat([state["cls_token"].repeat(b, 1, 1), patches], 1) + state["pos_embed"]
        if variant.registers:
            extra = state["register_tokens"].repeat(b, 1, 1)
            tokens = torch.cat([tokens[:, :1], extra, tokens[:, 1:]], 1)
    entering = None
    for i in range(start, variant.depth):
        if i == first_block:
            entering = tokens
        name, width = f"blocks.{i}", variant.dim // variant.heads
        q, k, v = linear(norm(tokens, f"{name}.norm1"), f"{name}.attn.qkv").split(variant.dim, dim=-1)
        heads = []
        for h in range(variant.heads):
            at = slice(h * width, (h + 1) * width)
            attention = (q[..., at] @ k[..., at].mT / math.sqrt(width)).softmax(-1)
            heads.append(attention @ v[..., at])
        gamma1, gamma2 = state.get(f"{name}.ls1.gamma", 1.0), state.get(f"{name}.ls2.gamma", 1.0)
        tokens = tokens + gamma1 * linear(torch.cat(heads, -1), f"{name}.attn.proj")
        hidden = linear(norm(tokens, f"{name}.norm2"), f"{name}.mlp.fc1")
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
        tokens = tokens + gamma2 * linear(hidden, f"{name}.mlp.fc2")
    return norm(tokens, "norm")[:, 0], entering


def images_of(variant, n=3, size=None):
    size = size or variant.native_size
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1))


def save(state, path):
    torch.save(state, path)
    return path


def features(backbone, images):
    return backbone.tail(backbone.trunk(images))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


# --- the split model is the unsplit one ---------------------------------------------------------------------------


def check_split(variant, trained_blocks, n=3):
    """Compare with the reference in float64, the features to 1e-5, all else to 1e-5 of its largest element."""
    weights = random_weights(variant)
    trunk, tail = build_vit(variant, variant.native_size, trained_blocks)
    for module in (trunk, tail):
        module.load_state_dict({key: weights[key] for key in module.state_dict()})
    images = images_of(variant, n)
    first = variant.depth - trained_blocks
    direction = torch.randn(n, variant.dim, generator=torch.Generator().manual_seed(2))

    tokens = trunk(images).requires_grad_()
    h = tail(tokens)
    (h * direction).sum().backward()

    leaves = {key: value.double().requires_grad_() for key, value in weights.items()}
    with torch.no_grad():
        _, entering = reference(leaves, images.double(), variant, first)
    entering.requires_grad_()
    expected, _ = reference(leaves, None, variant, first, entering)
    (expected * direction).sum().backward()

    def relatively_close(actual, expected, name):
        scale = expected.abs().max().item()
        assert scale > 1e-2, name  # else there would be nothing to compare
        torch.testing.assert_close(actual.double(), expected, atol=1e-5 * scale, rtol=0, msg=name)

    assert (h - expected).abs().max() < 1e-5
    relatively_close(tokens, entering, "tokens")
    relatively_close(tokens.grad, entering.grad, "gradient of the tokens")
    trained = {key: p for key, p in tail.named_parameters() if p.requires_grad}
    assert set(trained) == {
        key for i in range(first, variant.depth) for key in weights if key.startswith(f"blocks.{i}.")
    }
    for key, parameter in trained.items():
        relatively_close(parameter.grad, leaves[key].grad, key)


@pytest.mark.parametrize("trained_blocks", [1, 2, 3])
@pytest.mark.parametrize("variant", TINY, ids=lambda v: v.name)
def test_split_equals_unsplit_in_output_and_every_gradient(variant, trained_blocks):
    check_split(variant, trained_blocks)


def test_split_equals_unsplit_at_the_shapes_of_vits16():
    check_split(vit.VARIANTS["dino_vits16"], 1, n=2)


def test_layer_norm_epsilon_is_the_authors():
    """At a variance of 1e-6 an epsilon of 1e-5 or 1e-12 gives visibly other features."""
    weights = random_weights(DINO)
    for key in ("cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"):
        weights[key] *= 1e-3
    for key in weights:
        if key.endswith((".proj.weight", ".proj.bias", ".fc2.weight", ".fc2.bias")):
            weights[key] *= 1e-3
    trunk, tail = build_vit(DINO, 64, 1)
    for module in (trunk, tail):
        module.load_state_dict({key: weights[key] for key in module.state_dict()})
    with torch.no_grad():
        torch.testing.assert_close(
            tail(trunk(images_of(DINO))), reference(weights, images_of(DINO), DINO)[0], atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("variant", TINY, ids=lambda v: v.name)
def test_with_no_trained_block_the_trunk_caches_only_cls(variant, tmp_path):
    weights = random_weights(variant)
    backbone = load_vit(variant.name, save(weights, tmp_path / "w.pth"), 64, trained_blocks=0)
    images = images_of(variant)
    assert backbone.trunk(images).shape == (3, 1, 48)
    assert backbone.activation_shape == (1, 48)
    close(features(backbone, images), reference(weights, images, variant)[0])
    assert not any(p.requires_grad for p in backbone.tail.parameters())


@pytest.mark.parametrize("trained_blocks", [1, 2])
def test_only_the_last_blocks_are_trained(trained_blocks, tmp_path):
    path = save(random_weights(DINOV2), tmp_path / "w.pth")
    backbone = load_vit("tiny_dinov2", path, 64, trained_blocks)
    assert not any(p.requires_grad for p in backbone.trunk.parameters())
    frozen = {key for key, p in backbone.tail.named_parameters() if not p.requires_grad}
    assert frozen == {"norm.weight", "norm.bias"}
    assert {key.split(".")[1] for key, p in backbone.tail.named_parameters() if p.requires_grad} == {
        str(i) for i in range(3 - trained_blocks, 3)
    }
    with torch.no_grad():
        assert backbone.trunk(images_of(DINOV2)).shape[1:] == backbone.activation_shape == (17, 48)


def test_the_tail_costs_what_the_arithmetic_says():
    """Whole block 12·T·D² + 2·T²·D multiplications; the tail 12·D² + 2·H·T·D: 136 times fewer for ViT-B/16."""
    t, d, h = 197, 768, 12
    flops = []
    for module in (Block(d, h), build_vit(vit.VARIANTS["dino_vitb16"], 224, 1)[1]):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            module(torch.randn(1, t, d))
        flops.append(counter.get_total_flops())
    assert flops == [2 * (12 * t * d**2 + 2 * t**2 * d), 2 * (12 * d**2 + 2 * h * t * d)]
    assert flops[0] / flops[1] > 130


# --- names of the weights -----------------------------------------------------------------------------------------


HUB = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "register_tokens": "embeddings.register_tokens",
    "patch_embed.proj": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
}
VIT_LAYER = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
DINOV2_LAYER = {
    "attn.proj": "attention.output.dense",
    "ls1.gamma": "layer_scale1.lambda1",
    "ls2.gamma": "layer_scale2.lambda1",
}
NEW_LAYER = {"norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.o_proj"}
OLD_QKV = [f"attention.attention.{name}" for name in ("query", "key", "value")]
NEW_QKV = [f"attention.{name}_proj" for name in "qkv"]


def to_hub(state, layer_names, qkv=OLD_QKV, layer="encoder.layer", prefix=""):
    out = {}
    for key, value in state.items():
        if not key.startswith("blocks."):
            stem, _, kind = key.rpartition(".")
            out[HUB[key] if key in HUB else f"{HUB[stem]}.{kind}"] = value
            continue
        _, i, rest = key.split(".", 2)
        stem, _, kind = rest.rpartition(".")
        if stem == "attn.qkv":
            for name, part in zip(qkv, value.chunk(3), strict=True):
                out[f"{layer}.{i}.{name}.{kind}"] = part.clone()
        else:
            out[f"{layer}.{i}." + layer_names.get(rest, f"{layer_names.get(stem, stem)}.{kind}")] = value
    return {prefix + key: value for key, value in out.items()}


LAYOUTS = {
    "vit": lambda s: to_hub(s, VIT_LAYER),
    "vit, classifier prefix": lambda s: to_hub(s, VIT_LAYER, prefix="vit."),
    "vit, new names": lambda s: to_hub(s, NEW_LAYER, NEW_QKV, "layers", "vit."),
    "dinov2": lambda s: to_hub(s, DINOV2_LAYER) | {"embeddings.mask_token": torch.zeros(1, 48)},
    "dinov2, new names": lambda s: to_hub(
        s, {**DINOV2_LAYER, "attn.proj": "attention.o_proj"}, NEW_QKV, prefix="dinov2."
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_hub_naming_equals_authors_naming(layout, kind, tmp_path):
    variant = DINOV2 if layout.startswith("dinov2") else DINO
    weights = random_weights(variant)
    hub = LAYOUTS[layout](weights)
    assert not set(hub) & set(weights)
    if kind == "safetensors":
        save_file(hub, tmp_path / "model.safetensors")
        (tmp_path / "pytorch_model.bin").write_bytes(b"not read when there are safetensors")
    else:
        save(hub, tmp_path / "pytorch_model.bin")
    images = images_of(variant)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = load_vit(variant.name, save(weights, tmp_path / "w.pth"), 64)
        theirs = load_vit(variant.name, tmp_path, 64)
    assert torch.equal(features(ours, images), features(theirs, images))
    assert ours.fingerprint == theirs.fingerprint


WRAPPERS = {
    "teacher": lambda s: {
        "teacher": {f"module.backbone.{k}": v for k, v in s.items()},
        "student": {k: v + 1 for k, v in s.items()},
        "args": argparse.Namespace(arch="vit_base", lr=0.1),
        "epoch": 100,
    },
    "state_dict": lambda s: {"state_dict": {f"module.{k}": v for k, v in s.items()}},
    "chunks of DINOv2": lambda s: {
        "teacher": {f"backbone.{k.replace('blocks.', 'blocks.0.')}": v for k, v in s.items()}
    },
    "parameters, other strides": lambda s: {
        k: torch.nn.Parameter(v.mT.contiguous().mT if v.ndim == 2 else v) for k, v in s.items()
    },
    "half precision": lambda s: {k: v.bfloat16() for k, v in s.items()},
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrapped_checkpoints_of_the_authors(wrapper, tmp_path):
    weights = random_weights(DINO)
    backbone = load_vit("tiny_dino", save(WRAPPERS[wrapper](weights), tmp_path / "w.pth"), 64)
    if wrapper == "half precision":
        weights = {k: v.bfloat16().float() for k, v in weights.items()}
    assert not any(p.requires_grad for p in backbone.trunk.parameters())
    assert all(p.dtype == torch.float32 and p.is_contiguous() for p in backbone.tail.parameters())
    close(features(backbone, images_of(DINO)), reference(weights, images_of(DINO), DINO)[0])


def test_trunk_and_tail_together_are_the_authors_state_dict(tmp_path):
    weights = random_weights(REGISTERS)
    backbone = load_vit("tiny_reg", save(weights, tmp_path / "w.pth"), 64)
    again = backbone.trunk.state_dict() | backbone.tail.state_dict()
    assert set(again) == set(weights)
    assert all(torch.equal(again[key], weights[key]) for key in weights)


@pytest.mark.parametrize("variant", TINY, ids=lambda v: v.name)
def test_equals_transformers(variant, tmp_path):
    transformers = pytest.importorskip("transformers")
    family = {"tiny_dino": "ViT", "tiny_dinov2": "Dinov2", "tiny_reg": "Dinov2WithRegisters"}[variant.name]
    config = getattr(transformers, f"{family}Config")(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=192, mlp_ratio=4,
        image_size=64, patch_size=16, layer_norm_eps=1e-6,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2)
    model.save_pretrained(tmp_path)
    if family == "ViT":
        with pytest.warns(UserWarning, match=r"not used: pooler\.dense"):
            backbone = load_vit(variant.name, tmp_path, 64)
    else:
        backbone = load_vit(variant.name, tmp_path, 64)
    images = images_of(variant)
    with torch.no_grad():
        close(features(backbone, images), model(images).last_hidden_state[:, 0])
        if family == "Dinov2WithRegisters":  # the one family where transformers resamples as the authors do
            larger = images_of(variant, size=96)
            backbone = load_vit(variant.name, tmp_path, 96)
            close(features(backbone, larger), model(larger).last_hidden_state[:, 0])


# --- positions ----------------------------------------------------------------------------------------------------


def bicubic(image, grid, offset):
    """Cubic convolution with a = −0.75 and clamped borders, at the centres that a scale of (grid + offset)/g gives."""
    side = image.shape[0]
    rows = np.zeros((grid, side))
    for i in range(grid):
        centre = (i + 0.5) * side / (grid + offset) - 0.5
        for j in range(math.floor(centre) - 1, math.floor(centre) + 3):
            t, a = abs(centre - j), -0.75
            weight = (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * (t**3 - 5 * t**2 + 8 * t - 4)
            rows[i, min(max(j, 0), side - 1)] += weight
    return np.einsum("ia,jb,abd->ijd", rows, rows, image)


@pytest.mark.parametrize("grid", [2, 3, 5, 6, 16])
def test_positions_are_resampled_as_the_authors_do(grid):
    positions = torch.randn(1, 17, 6, generator=torch.Generator().manual_seed(0))
    resampled = interpolate_positions(positions, grid)
    assert resampled.shape == (1, 1 + grid**2, 6)
    assert torch.equal(resampled[:, 0], positions[:, 0])
    expected = bicubic(positions[0, 1:].reshape(4, 4, 6).double().numpy(), grid, offset=0.1)
    np.testing.assert_allclose(resampled[0, 1:].reshape(grid, grid, 6), expected, atol=1e-5)


def test_positions_stay_at_the_native_size():
    positions = torch.randn(1, 17, 6)
    for registers in (False, True):
        assert torch.equal(interpolate_positions(positions, 4, registers=registers), positions)


def test_positions_of_dinov2_at_224_pixels():
    """518 px to 224 px: the published call, spelled out."""
    positions = torch.randn(1, 1 + 37**2, 4)
    image = positions[:, 1:].reshape(1, 37, 37, 4).permute(0, 3, 1, 2)
    expected = F.interpolate(image, scale_factor=(16.1 / 37, 16.1 / 37), mode="bicubic").permute(0, 2, 3, 1)
    assert torch.equal(interpolate_positions(positions, 16)[:, 1:], expected.reshape(1, 256, 4))


@pytest.mark.parametrize("variant", TINY, ids=lambda v: v.name)
def test_other_image_sizes(variant, tmp_path):
    weights = random_weights(variant)
    backbone = load_vit(variant.name, save(weights, tmp_path / "w.pth"), 96)
    images = images_of(variant, size=96)
    assert backbone.trunk(images).shape[1:] == backbone.activation_shape == (37 + variant.registers, 48)
    assert backbone.preprocessing == Preprocessing(
        image_size=96, crop_pct=0.875, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    weights["pos_embed"] = interpolate_positions(weights["pos_embed"], 6, registers=variant.registers > 0)
    close(features(backbone, images), reference(weights, images, variant)[0])


# --- bad input ----------------------------------------------------------------------------------------------------


def sentence(call, *needles):
    """The message of the InputError, which must be one sentence with these words in it."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    for needle in needles:
        assert str(needle) in message
    return message


def test_missing_weights_are_named(tmp_path):
    weights = random_weights(DINO)
    del weights["blocks.1.attn.proj.bias"], weights["norm.weight"]
    path = save(weights, tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dino", path, 64), path, "it lacks blocks.1.attn.proj.bias, norm.weight;")


def test_a_lost_key_projection_is_named(tmp_path):
    hub = to_hub(random_weights(DINO), VIT_LAYER)
    del hub["encoder.layer.2.attention.attention.key.bias"]
    save_file(hub, tmp_path / "model.safetensors")
    sentence(lambda: load_vit("tiny_dino", tmp_path, 64), "it lacks blocks.2.attn.qkv.bias;")


def test_unexpected_weights_are_named_in_a_warning(tmp_path):
    weights = random_weights(DINO) | {f"head.mlp.{i}.weight": torch.zeros(2, 2) for i in range(9)}
    path = save(weights, tmp_path / "w.pth")
    with pytest.warns(UserWarning, match=r"w\.pth.*not used: head\.mlp\.0\.weight.* and 1 more"):
        backbone = load_vit("tiny_dino", path, 64)
    close(features(backbone, images_of(DINO)), reference(weights, images_of(DINO), DINO)[0])


def test_weights_of_another_model_are_recognised(tmp_path, monkeypatch):
    wide = Variant("tiny_wide", "someone/wide", 96, 3, 6, 16, 64)
    monkeypatch.setitem(vit.VARIANTS, "tiny_wide", wide)
    path = save(random_weights(wide), tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dino", path, 64), path, "cls_token", "(1, 1, 96)", "weights of tiny_wide")
    path = save(random_weights(DINO), tmp_path / "w.pth")
    sentence(lambda: load_vit("dino_vitb16", path), path, "dino_vitb16", "weights of tiny_dino")
    sentence(lambda: load_vit("tiny_dinov2", path, 64), "it lacks blocks.0.ls1.gamma")


@pytest.mark.parametrize("variant", [REGISTERS, Variant("deep", "someone/deep", 48, 4, 3, 16, 64, True)])
def test_surplus_parts_of_the_model_are_an_error(variant, tmp_path):
    """They would load, and give other features than the model's."""
    path = save(random_weights(variant), tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dinov2", path, 64), path, "it also has")


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
@pytest.mark.parametrize("keep", [0, 5, 1000, -1000])
def test_truncated_files(name, keep, tmp_path):
    path = tmp_path / name
    (save if name.endswith("pth") else save_file)(random_weights(DINO), path)
    path.write_bytes(path.read_bytes()[:keep])
    sentence(lambda: load_vit("tiny_dino", path, 64), path, "cannot be read as weights", "download it again")


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code in a weights file was run')",))


@pytest.mark.parametrize("content", [Evil(), {"state_dict": Evil()}])
def test_code_in_a_file_is_not_run(content, tmp_path):
    path = save(content, tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dino", path, 64), path, "cannot be read as weights")


@pytest.mark.parametrize("content", [{}, [1, 2], {"epoch": 3}, {0: torch.zeros(2)}])
def test_files_without_weights(content, tmp_path):
    path = save(content, tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dino", path, 64), path, "holds no weights")


def test_paths_and_parameters_that_cannot_be(tmp_path):
    sentence(lambda: load_vit("tiny_dino", tmp_path / "nothing.pth", 64), "nothing.pth", "does not exist")
    sentence(lambda: load_vit("tiny_dino", tmp_path, 64), tmp_path, "model.safetensors", "pytorch_model.bin")
    sentence(lambda: load_vit("vit_huge"), "vit_huge", "dino_vitb16")
    path = save(random_weights(DINO), tmp_path / "w.pth")
    sentence(lambda: load_vit("tiny_dino", path, 70), "70 px", "multiple of 16")
    sentence(lambda: load_vit("tiny_dino", path, 0), "0 px")
    sentence(lambda: load_vit("tiny_dino", path, 64, 4), "4 blocks", "0 to 3")
    sentence(lambda: load_vit("tiny_dino", path, 64, -1), "-1 blocks")


# --- the hub ------------------------------------------------------------------------------------------------------


def test_hub_without_network(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def fail(*args, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(hub, "hf_hub_download", fail)
    sentence(lambda: load_vit("dino_vitb16"), "facebook/dino-vitb16", "network", "--weights", "ConnectionError")


def test_hub_client_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    sentence(lambda: load_vit("dino_vitb16"), "pip install 'ltgcd[vit]'", "--weights")


def test_hub_falls_back_to_the_older_file(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    weights, asked = random_weights(DINO), []
    path = save(to_hub(weights, VIT_LAYER), tmp_path / "pytorch_model.bin")

    def download(repository, name):
        asked.append((repository, name))
        if name != path.name:
            raise FileNotFoundError(name)
        return str(path)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    backbone = load_vit("tiny_dino", image_size=64)
    assert asked == [("someone/tiny-dino", "model.safetensors"), ("someone/tiny-dino", "pytorch_model.bin")]
    close(features(backbone, images_of(DINO)), reference(weights, images_of(DINO), DINO)[0])


def test_published_variants():
    """Widths, grids and preprocessing of the published models, and the size of the paper's backbone."""
    published = {name: v for name, v in vit.VARIANTS.items() if not name.startswith("tiny")}
    assert set(published) >= {"dino_vits16", "dino_vits8", "dino_vitb16", "dino_vitb8"}
    assert set(published) >= {"dinov2_vits14", "dinov2_vitb14", "dinov2_vitl14"}
    for name, variant in published.items():
        assert variant.dim == 64 * variant.heads
        assert variant.patch == int(name.removesuffix("_reg").rpartition("vit")[2][1:])
        assert variant.native_size == (518 if name.startswith("dinov2") else 224)
        assert variant.layer_scale == name.startswith("dinov2")
        assert bool(variant.registers) == name.endswith("_reg")
    with torch.device("meta"):
        trunk, tail = build_vit(published["dino_vitb16"], 224, 1)
    count = sum(p.numel() for module in (trunk, tail) for p in module.parameters())
    assert count == 85_798_656  # ViT-B/16 without its classifier
    assert sum(p.numel() for p in tail.parameters() if p.requires_grad) == 7_087_872
