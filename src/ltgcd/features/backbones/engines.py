"""What runs a trunk: torch on the best device there is, or OpenVINO on a CPU."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltgcd.common.errors import InputError
from ltgcd.features.backbones import EFFICIENTNETS
from ltgcd.features.backbones.base import Backbone

Engine = Literal["torch", "openvino"]
Run = Callable[[Any], NDArray[np.float32]]

# Pixels of all views from which on OpenVINO is done sooner, though it takes 3 to 6 seconds to convert a network.
OPENVINO_PIXELS = 40e6


def choose_engine(engine: str, backbone: Backbone, images: int, held: str | None) -> Engine:
    """The engine that is asked for; where that is "auto", the one that is faster, by a rule that has no clock in it.

    Engines differ in the last bits of a feature, so the choice hangs on nothing that varies from call to call: not on a
    timing, and a folder that holds features goes on with their engine. OpenVINO is taken for EfficientNets on a CPU,
    where it is installed and there are enough images: measured in one thread it is 1.5 to 1.7 times as fast as torch
    there, and a tenth faster for ViTs, which is not worth the start.

    Parameters
    ----------
    engine : {"auto", "torch", "openvino"}
        What was asked for.
    backbone : Backbone
        What shall be run.
    images : int
        How many views of images there are in all.
    held : str or None
        Engine of the features that are there already.
    """
    if engine in {"torch", "openvino"}:
        return engine  # type: ignore[return-value]
    if engine != "auto":
        raise InputError(f"There is no engine '{engine}'; choose auto, torch or openvino.")
    if held in {"torch", "openvino"}:
        return held  # type: ignore[return-value]
    pixels = images * backbone.preprocessing.image_size**2 if backbone.preprocessing else 0
    is_faster = set(backbone.name.split("+")) <= set(EFFICIENTNETS) and not torch.cuda.is_available()
    return "openvino" if is_faster and pixels >= OPENVINO_PIXELS and find_spec("openvino") is not None else "torch"


def make_engine(backbone: Backbone, engine: Engine, batch_size: int) -> Run:
    """A function from a batch of the trunk's input to its activations (B, *activation_shape) in float32.

    Images and vectors are always computed `batch_size` at a time (see `filled_up`); of texts the trunk gets all at
    once and makes its own batches.
    """
    return torch_engine(backbone, batch_size) if engine == "torch" else openvino_engine(backbone, batch_size)


def half_precision(device: torch.device) -> torch.dtype | None:
    """The short floats of a device: bfloat16 on a GPU that computes with it, float16 on an older one, none on a CPU.

    On a CPU both are far slower than float32.
    """
    if device.type != "cuda":
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def filled_up(batch: torch.Tensor, size: int) -> torch.Tensor:
    """`batch` with rows of zeros after its own, so that there are `size` of them.

    Which kernels compute a row, and so its last bits, depends on the number of rows beside it: measured with
    EfficientNet-Lite2 on a CPU, the maps of every image differ between batches of 16 and of 8 or less. In batches that
    are always full an item's result depends on nothing but the item; the rows of zeros are to be dropped.
    """
    if len(batch) >= size:
        return batch
    return torch.cat([batch, batch.new_zeros(size - len(batch), *batch.shape[1:])])


def torch_engine(backbone: Backbone, batch_size: int) -> Run:
    """Torch: on a GPU in half precision where there is one, else on the CPU in float32."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = half_precision(device)
    trunk = backbone.trunk.to(device)

    def run(batch: torch.Tensor | Sequence[str]) -> NDArray[np.float32]:
        inputs = filled_up(batch, batch_size).to(device) if isinstance(batch, torch.Tensor) else batch
        with torch.inference_mode(), torch.autocast(device.type, dtype=half, enabled=half is not None):
            activations: torch.Tensor = trunk(inputs)[: len(batch)]
        return activations.float().cpu().numpy()

    return run


def openvino_engine(backbone: Backbone, batch_size: int) -> Run:
    """OpenVINO on the CPU, in float32, for one size of batch."""
    if backbone.kind != "image" or backbone.preprocessing is None:
        raise InputError(f"OpenVINO runs image backbones only, not '{backbone.name}'; give --engine torch.")
    # Converting a network, OpenVINO reports to its makers, from forks that may hang and stay. Without this package,
    # which it takes for optional, it does not.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino as ov  # noqa: PLC0415 - optional
    except ImportError as error:
        raise InputError(
            "OpenVINO is not installed: pip install 'ltgcd[openvino]', or give --engine torch and another folder."
        ) from error
    size = backbone.preprocessing.image_size
    shape = (batch_size, 3, size, size)
    with warnings.catch_warnings():  # tracing fixes the padding to this image size, which is what is wanted
        warnings.simplefilter("ignore")
        model = ov.convert_model(_Plain(backbone.trunk), example_input=torch.zeros(shape), input=[shape])
    threads = torch.get_num_threads()  # it has threads of its own, and would take one a core
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    compiled = ov.Core().compile_model(model, "CPU", settings)

    def run(batch: torch.Tensor) -> NDArray[np.float32]:
        full = filled_up(batch, batch_size).contiguous().numpy()
        result: NDArray[np.float32] = compiled(full)[0][: len(batch)]
        return result

    return run


class _Plain(nn.Module):
    """The trunk behind a signature that the converter can trace."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        activations: torch.Tensor = self.trunk(images)
        return activations
