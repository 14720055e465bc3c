"""Labels as Python holds them; numbers of any size stay what they are (DEFECTS 122)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ltgcd.common.errors import InputError
from ltgcd.data.python_labels import as_array, encode_labels_of_any_kind, with_novel_labels


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([2**63 - 1, -1, 0]), [0, 2**63 - 1]),
        (np.array([2**64 - 1, 2**64 - 2, 1], np.uint64), [1, 2**64 - 2, 2**64 - 1]),
        ([2**64 - 1, -1, 2**64 - 2], [2**64 - 2, 2**64 - 1]),
        ([2**63, None, 2**63 + 1], [2**63, 2**63 + 1]),
        ([2**53 + 1, float("nan"), 2**53], [2**53, 2**53 + 1]),
        ([np.uint64(2**64 - 1), np.int64(-1), np.uint64(2**64 - 2)], [2**64 - 2, 2**64 - 1]),
        ([2**70, -1, 2**70 + 1], [2**70, 2**70 + 1]),
        ([np.float32(1), float("nan"), 2], [1, 2]),
    ],
)
def test_large_numbers_are_classes_of_their_own(y: Any, classes: list[int]) -> None:
    codes, found = encode_labels_of_any_kind(y, len(y))
    assert found == classes
    assert sorted(set(codes.tolist()) - {-1}) == list(range(len(classes)))
    named = with_novel_labels(found, len(found), len(found) + 2)
    array = as_array(named)
    assert array.tolist() == named == [*classes, classes[-1] + 1, classes[-1] + 2]
    assert array.dtype.kind == ("O" if named[-1] >= 2**64 else "u" if named[-1] >= 2**63 else "i")


def test_floats_that_stand_for_several_numbers_are_refused() -> None:
    for y in (np.array([2.0**64, -1.0]), [2.0**64, -1.0]):
        with pytest.raises(InputError, match="as a float, which may be several numbers; give integers"):
            encode_labels_of_any_kind(y, 2)
    with pytest.raises(InputError, match="infinity"):
        encode_labels_of_any_kind([float("inf"), 1], 2)


def test_text_that_says_there_is_no_label_is_no_class() -> None:
    """A column that was read as text: "NA", "unsure" and the number -1 were classes without a word."""
    y = ["ant", "NA", "unsure", "-1", "nan", None, "ant", "NA"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        codes, found = encode_labels_of_any_kind(y, len(y))
    assert found == ["ant"] and codes.tolist() == [0, -1, -1, -1, -1, -1, 0, -1]
    assert len(caught) == 1 and "2 'NA'" in str(caught[0].message) and "'class NA'" in str(caught[0].message)
    with pytest.warns(UserWarning, match="read as unlabelled"):
        assert encode_labels_of_any_kind(np.array(["ant", "NA"]), 2)[1] == ["ant"]
    # What is known to be a class is one, and without -1 its text is one as any other.
    assert encode_labels_of_any_kind(["ant", "unknown"], 2, classes=["unknown"])[1] == ["ant", "unknown"]
    assert encode_labels_of_any_kind(["ant", "-1"], 2, None)[1] == ["-1", "ant"]
