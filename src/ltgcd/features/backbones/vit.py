"""DINO and DINOv2 vision transformers, split into a cached trunk and a trained tail (docs/methods.md §3).

The names of the weights are those of the authors (and of timm): ``trunk.state_dict() | tail.state_dict()`` is
the authors' file. Weights in the Hugging Face hub's naming are renamed on the way in.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

State = dict[str, Tensor]
RGB = tuple[float, float, float]

LAYER_NORM_EPS = 1e-6  # the authors' value; transformers' ViTConfig defaults to 1e-12, so a config.json is not asked


@dataclass(frozen=True)
class Variant:
    """The architecture of one set of published weights."""

    name: str
    hub_id: str  # repository on the Hugging Face hub
    dim: int  # width D
    depth: int  # number of blocks
    heads: int
    patch: int  # side of a patch in pixels
    native_size: int  # side in pixels of the images that the stored position embedding is laid out for
    layer_scale: bool = False  # DINOv2: each residual branch is multiplied by a learned vector
    registers: int = 0  # DINOv2 "_reg": tokens between CLS and the patches
    mean: RGB = IMAGENET_MEAN
    std: RGB = IMAGENET_STD


VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        Variant("dino_vits16", "facebook/dino-vits16", 384, 12, 6, 16, 224),
        Variant("dino_vits8", "facebook/dino-vits8", 384, 12, 6, 8, 224),
        Variant("dino_vitb16", "facebook/dino-vitb16", 768, 12, 12, 16, 224),
        Variant("dino_vitb8", "facebook/dino-vitb8", 768, 12, 12, 8, 224),
        Variant("dinov2_vits14", "facebook/dinov2-small", 384, 12, 6, 14, 518, True),
        Variant("dinov2_vitb14", "facebook/dinov2-base", 768, 12, 12, 14, 518, True),
        Variant("dinov2_vitl14", "facebook/dinov2-large", 1024, 24, 16, 14, 518, True),
        Variant("dinov2_vits14_reg", "facebook/dinov2-with-registers-small", 384, 12, 6, 14, 518, True, 4),
        Variant("dinov2_vitb14_reg", "facebook/dinov2-with-registers-base", 768, 12, 12, 14, 518, True, 4),
        Variant("dinov2_vitl14_reg", "facebook/dinov2-with-registers-large", 1024, 24, 16, 14, 518, True, 4),
    )
}

# Applied in this order to every name. Transformers has written the encoder in two ways over the years
# (encoder.layer.N.attention.attention.query and layers.N.attention.q_proj), and DINOv2's training code adds the
# number of a chunk (blocks.CHUNK.N).
_RENAMES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^(?:(?:module|backbone|teacher|vit|dinov2|dinov2_with_registers)\.)+", ""),
        (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
        (r"^embeddings\.position_embeddings$", "pos_embed"),
        (r"^embeddings\.", ""),
        (r"^(?:encoder\.)?layers?\.(\d+)\.", r"blocks.\1."),
        (r"^blocks\.\d+\.(\d+)\.", r"blocks.\1."),
        (r"^layernorm\.", "norm."),
        (r"\.layernorm_before\.", ".norm1."),
        (r"\.layernorm_after\.", ".norm2."),
        (r"\.attention\.(?:attention\.)?(?:query|q_proj)\.", ".attn.q."),
        (r"\.attention\.(?:attention\.)?(?:key|k_proj)\.", ".attn.k."),
        (r"\.attention\.(?:attention\.)?(?:value|v_proj)\.", ".attn.v."),
        (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."),
        (r"\.output\.dense\.", ".mlp.fc2."),
        (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
    )
)
_PARTS = ("cls_token", "pos_embed", "register_tokens", "patch_embed.", "blocks.", "norm.")
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")


def interpolate_positions(positions: Tensor, grid: int, *, registers: bool = False) -> Tensor:
    """Resample a position embedding (1, 1 + g², D) to a grid of another side, (1, 1 + grid², D).

    Bicubic, as the authors do it: DINO and DINOv2 pass ``scale_factor=(grid + 0.1) / g``, which also shifts the
    sampling points a little (`transformers` passes ``size=grid``, so its DINOv2 features at 224 px differ
    slightly from the authors'); the models with registers use the exact size and antialiasing.
    """
    side = round((positions.shape[1] - 1) ** 0.5)
    if side == grid:
        return positions
    cls, patches = positions[:, :1], positions[:, 1:]
    image = patches.transpose(1, 2).reshape(1, -1, side, side)
    if registers:
        image = F.interpolate(image, size=(grid, grid), mode="bicubic", antialias=True)
    else:
        image = F.interpolate(image, scale_factor=(grid + 0.1) / side, mode="bicubic")
    return torch.cat((cls, image.flatten(2).transpose(1, 2)), dim=1)


def rename_weights(raw: Mapping[Any, Any]) -> State:
    """Bring the names of any of the known layouts to the authors', in float32, with q, k and v merged."""
    for wrapper in ("teacher", "state_dict", "model"):
        if isinstance(raw.get(wrapper), Mapping):
            raw = raw[wrapper]
    state: State = {}
    for name, value in raw.items():
        if isinstance(name, str) and isinstance(value, Tensor):
            key = name
            for pattern, replacement in _RENAMES:
                key = pattern.sub(replacement, key)
            state[key] = value.detach().float().contiguous()  # safetensors saves no other strides
    for key in [key for key in state if ".attn.q." in key]:
        parts = [key.replace(".attn.q.", f".attn.{part}.") for part in "qkv"]
        if all(part in state for part in parts):
            state[key.replace(".attn.q.", ".attn.qkv.")] = torch.cat([state.pop(part) for part in parts])
    return state


class Attention(nn.Module):
    """Multi-head self-attention, for all tokens or for the CLS token alone."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Every token asks: (B, T, D) to (B, T, D)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out

    def cls_row(self, x: Tensor) -> Tensor:
        """Only CLS asks: (B, T, D) to (B, 1, D), the first row of `forward`.

        With one query, neither keys nor values have to be made for every token. Per head,
        q·(W_k x_t + b_k) = (W_kᵀ q)·x_t + a constant that the softmax ignores, and
        Σ_t a_t (W_v x_t + b_v) = W_v (Σ_t a_t x_t) + b_v. So the heads' W_kᵀ q become H queries of width D that
        share the tokens themselves as keys and values: 2·H·T·D + 4·D² multiplications in place of 2·T·D².
        """
        dim = x.shape[-1]
        w_q, w_k, w_v = self.qkv.weight.view(3, self.heads, -1, dim)  # each (H, D/H, D)
        b_q, _, b_v = self.qkv.bias.view(3, self.heads, -1)
        query = torch.einsum("bc,hdc->bhd", x[:, 0], w_q) + b_q
        probe = torch.einsum("bhd,hdc->bhc", query, w_k)
        tokens, scale = x[:, None], (dim / self.heads) ** -0.5
        pooled = F.scaled_dot_product_attention(probe[:, None], tokens, tokens, scale=scale)  # (B, 1, H, D)
        value = torch.einsum("bnhc,hdc->bnhd", pooled, w_v) + b_v
        out: Tensor = self.proj(value.flatten(2))
        return out


class LayerScale(nn.Module):
    """Multiply a residual branch by a learned vector (DINOv2)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Scale (…, D)."""
        return x * self.gamma


class Block(nn.Module):
    """A pre-norm transformer block; with `cls_only`, nothing but its CLS row is computed and returned."""

    def __init__(self, dim: int, heads: int, layer_scale: bool = False, cls_only: bool = False) -> None:
        super().__init__()
        self.cls_only = cls_only
        self.norm1 = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.attn = Attention(dim, heads)
        self.ls1 = LayerScale(dim) if layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(dim, eps=LAYER_NORM_EPS)
        self.mlp = nn.Sequential(OrderedDict(fc1=nn.Linear(dim, 4 * dim), act=nn.GELU(), fc2=nn.Linear(4 * dim, dim)))
        self.ls2 = LayerScale(dim) if layer_scale else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D), or to (B, 1, D) with `cls_only`."""
        normed = self.norm1(tokens)
        if self.cls_only:
            tokens = tokens[:, :1] + self.ls1(self.attn.cls_row(normed))
        else:
            tokens = tokens + self.ls1(self.attn(normed))
        out: Tensor = tokens + self.ls2(self.mlp(self.norm2(tokens)))
        return out


def _blocks(variant: Variant, indices: Iterable[int]) -> nn.Sequential:
    """Blocks under their number in the whole model; only the model's last one is reduced to its CLS row."""
    return nn.Sequential(
        OrderedDict(
            (str(i), Block(variant.dim, variant.heads, variant.layer_scale, cls_only=i == variant.depth - 1))
            for i in indices
        )
    )


class Trunk(nn.Module):
    """Frozen: patches, CLS, positions, registers, and the blocks that are not trained.

    Images (B, 3, image_size, image_size) to tokens (B, T, D), T = 1 + registers + patches. When no block at all
    is left for the tail, T = 1: the CLS token is all that the final LayerNorm needs, so the cache holds no more.
    """

    def __init__(self, variant: Variant, image_size: int, trained_blocks: int) -> None:
        super().__init__()
        grid, dim = image_size // variant.patch, variant.dim
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + grid**2, dim) * 0.02)
        if variant.registers:
            self.register_tokens = nn.Parameter(torch.randn(1, variant.registers, dim) * 0.02)
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(3, dim, variant.patch, variant.patch)))
        self.blocks = _blocks(variant, range(variant.depth - trained_blocks))
        self.registers = variant.registers
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Return what is cached."""
        patches = self.patch_embed(images).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.cls_token.expand(len(images), -1, -1), patches), dim=1) + self.pos_embed
        if self.registers:  # they carry no position
            registers = self.register_tokens.expand(len(images), -1, -1)
            tokens = torch.cat((tokens[:, :1], registers, tokens[:, 1:]), dim=1)
        out: Tensor = self.blocks(tokens)
        return out


class Tail(nn.Module):
    """Trained: the last blocks, then the final LayerNorm, which stays frozen as in SimGCD (docs/methods.md §3).

    Tokens (B, T, D) to the CLS feature h (B, D).
    """

    def __init__(self, variant: Variant, trained_blocks: int) -> None:
        super().__init__()
        self.blocks = _blocks(variant, range(variant.depth - trained_blocks, variant.depth))
        self.norm = nn.LayerNorm(variant.dim, eps=LAYER_NORM_EPS).requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return h, not normalised."""
        h: Tensor = self.norm(self.blocks(tokens)[:, 0])
        return h


def build_vit(variant: Variant, image_size: int, trained_blocks: int) -> tuple[Trunk, Tail]:
    """Trunk and tail with random weights; the last `trained_blocks` (0 … depth) blocks go to the tail."""
    if image_size < variant.patch or image_size % variant.patch:
        raise InputError(f"{variant.name} cannot take images of {image_size} px: choose a multiple of {variant.patch}.")
    if not 0 <= trained_blocks <= variant.depth:
        raise InputError(
            f"{variant.name} cannot train {trained_blocks} blocks: choose a number from 0 to {variant.depth}."
        )
    return Trunk(variant, image_size, trained_blocks), Tail(variant, trained_blocks)


def _some(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _misfit(state: State, variant: Variant) -> str:
    """Say why these weights are not those of the variant; an empty string if they are."""
    with torch.device("meta"):
        trunk, tail = build_vit(variant, variant.native_size, 1)
    shapes = {key: tuple(value.shape) for key, value in (trunk.state_dict() | tail.state_dict()).items()}
    for key, shape in shapes.items():
        if key in state and tuple(state[key].shape) != shape:
            return f"{key} has the shape {tuple(state[key].shape)} where {shape} is needed"
    if missing := [key for key in shapes if key not in state]:
        return f"it lacks {_some(missing)}"
    # A surplus block or register is another model, whose features would be wrong without a word.
    if surplus := [key for key in state if key not in shapes and key.startswith(_PARTS)]:
        return f"it also has {_some(surplus)}"
    return ""


def read_weights(path: Path) -> State:
    """Read a hub folder, a ``.safetensors`` file or a ``.pth``/``.bin`` file; nothing in it is executed."""
    if path.is_dir():
        found = [path / name for name in _HUB_FILES if (path / name).is_file()]
        if not found:
            raise InputError(f"{path} holds neither {' nor '.join(_HUB_FILES)}: give the folder that does.")
        path = found[0]
    if not path.is_file():
        raise InputError(f"{path} does not exist: give a folder of the Hugging Face hub or a .pth file.")
    # DINO's full checkpoints keep their command line beside the weights; a Namespace holds data only.
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        if path.suffix == ".safetensors":
            raw: Any = load_file(path)
        else:
            raw = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # broken bytes raise whatever the parser stumbles over, from EOFError to KeyError
        raise InputError(f"{path} cannot be read as weights ({type(error).__name__}): download it again.") from error
    state = rename_weights(raw) if isinstance(raw, Mapping) else {}
    if not state:
        raise InputError(f"{path} holds no weights: give the file with the model's state dict.")
    return state


def download_weights(variant: Variant) -> Path:
    """Fetch the weights from the hub, or from its cache on this machine."""
    advice = "give --weights with a local folder or the authors' .pth file"
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415  (optional, and slow to import)
    except ImportError as error:
        raise InputError(
            f"The weights of {variant.name} are on the hub: pip install 'ltgcd[vit]', or {advice}."
        ) from error
    for name in _HUB_FILES:
        try:
            return Path(hf_hub_download(variant.hub_id, name))
        except Exception as error:  # its own errors and its transport's, which change between versions
            cause = error
    raise InputError(
        f"{variant.hub_id} could not be fetched from the Hugging Face hub ({type(cause).__name__}): "
        f"check the network, or {advice}."
    ) from cause


def load_vit(name: str, weights: str | Path | None = None, image_size: int = 224, trained_blocks: int = 1) -> Backbone:
    """Load a published DINO or DINOv2 model as a backbone.

    Parameters
    ----------
    name : str
        A key of `VARIANTS`.
    weights : str or Path, optional
        A folder in the hub's layout, or a ``.pth``/``.safetensors`` file of the authors; by default, the hub.
    image_size : int
        Side of the images in pixels, a multiple of the patch size.
    trained_blocks : int
        Number of last blocks that are trained; 0 leaves a tail with nothing to train.

    Warns
    -----
    UserWarning
        Names the weights that were not used, such as a projection head.
    """
    if name not in VARIANTS:
        raise InputError(f"There is no backbone {name}: choose one of {', '.join(VARIANTS)}.")
    variant = VARIANTS[name]
    with torch.device("meta"):  # no time and memory for random weights that are replaced at once
        trunk, tail = build_vit(variant, image_size, trained_blocks)
    source = download_weights(variant) if weights is None else Path(weights)
    state = read_weights(source)
    if misfit := _misfit(state, variant):
        others = [other.name for other in VARIANTS.values() if not _misfit(state, other)]
        cure = f"these are the weights of {others[0]}" if others else f"give those of {variant.hub_id}"
        raise InputError(f"{source} does not fit {name}: {misfit}; {cure}.")
    grid = image_size // variant.patch
    state["pos_embed"] = interpolate_positions(state["pos_embed"], grid, registers=variant.registers > 0)
    for module in (trunk, tail):
        module.load_state_dict({key: state.pop(key) for key in module.state_dict()}, assign=True)
    state.pop("mask_token", None)  # every DINOv2 file has one; it serves pre-training only
    if state:
        warnings.warn(f"{source} holds more than {name}; not used: {_some(list(state))}.", stacklevel=2)
    tokens = 1 if trained_blocks == 0 else trunk.pos_embed.shape[1] + variant.registers
    views = Preprocessing(image_size=image_size, crop_pct=0.875, mean=variant.mean, std=variant.std)
    return Backbone(name, "image", trunk, tail, (tokens, variant.dim), variant.dim, views, trained_blocks)
