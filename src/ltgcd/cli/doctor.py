"""``ltgcd doctor``: what is installed, what this machine has, and what that means for the commands."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Any

import typer

from ltgcd.cli.common import Data, Json, report, say

# Extra of the package: a module that shows it is there, and what it is for.
EXTRAS = {
    "text": ("sentence_transformers", "texts (MiniLM)"),
    "vit": ("huggingface_hub", "DINO and DINOv2 from the Hugging Face hub"),
    "openvino": ("openvino", "a faster engine for images on a CPU"),
    "plot": ("matplotlib", "charts (plot.*, --plot)"),
    "review": ("starlette", "ltgcd review"),
}
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "pillow",
    "torch",
    "faiss-cpu",
    "safetensors",
    "scikit-network",
)
FREE_LEAST = 2**30  # bytes


def doctor(
    folder: Annotated[Path, typer.Option("--folder", help="Where runs are to be written.")] = Path(),
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say what is installed, what this machine has, and what is missing for which command.

    \b
    Examples:
      ltgcd doctor
      ltgcd doctor --json
    """

    def work() -> dict[str, Any]:
        import torch

        from ltgcd.data.datasets import DATASETS, data_root, locate

        root, disk = data_root(data), shutil.disk_usage(folder)
        found: dict[str, Any] = {
            "version": metadata.version("ltgcd"),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "packages": {name: _version(name) for name in PACKAGES},
            "extras": {name: util.find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
            "cores": _cores(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "memory_bytes": _memory(),
            "free_bytes": disk.free,
            "on_path": shutil.which("ltgcd"),
            "data": str(root),
            "datasets": [name for name, dataset in DATASETS.items() if locate(dataset, root) is not None],
        }
        return {**found, "advice": advice(found)}

    def show(found: dict[str, Any]) -> None:
        print(f"ltgcd {found['version']}, Python {found['python']}, {found['system']}")
        say("  " + ", ".join(f"{name} {version or 'MISSING'}" for name, version in found["packages"].items()), "  ")
        gpu, memory = found["gpu"] or "no GPU", found["memory_bytes"]
        size = f"{memory / 2**30:.0f} GiB of memory" if memory else "memory unknown"
        say(f"  {found['cores']} cores, {size}, {gpu}, {found['free_bytes'] / 2**30:.0f} GiB free on disk", "  ")
        for name, there in found["extras"].items():
            print(
                f"  {'yes' if there else 'no ':3} {EXTRAS[name][1]}"
                + ("" if there else f": pip install 'ltgcd[{name}]'")
            )
        say(f"  benchmark datasets in {found['data']}: {', '.join(found['datasets']) or 'none'}", "    ")
        for sentence in found["advice"]:
            say(f"- {sentence}", "  ")
        if not found["advice"]:
            print("Everything that is needed is here.")

    report(work, show, as_json)


def advice(found: dict[str, Any]) -> list[str]:
    """What a user may want to mend, a sentence each."""
    missing = [name for name, version in found["packages"].items() if version is None]
    said = []
    if missing:
        said.append(f"Not installed, though needed: {', '.join(missing)}; 'pip install ltgcd' brings them.")
    if found["on_path"] is None:
        said.append(
            f"'ltgcd' is not on the PATH of this terminal; activate the environment, or type {sys.executable} -m ltgcd."
        )
    if found["free_bytes"] < FREE_LEAST:
        said.append("Less than 1 GiB is free on this disk; embeddings of 100,000 images take about 0.5 GiB.")
    return said


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    """Cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no POSIX
        return None
