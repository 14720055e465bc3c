"""The one softmax: against scipy's, in blocks of any size, at any temperature and scale."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from scipy import special

from ltgcd.common import numerics
from ltgcd.common.numerics import softmax


def test_softmax() -> None:
    z = np.array([[0.0, np.log(3.0)], [1000.0, -np.inf]])
    np.testing.assert_allclose(softmax(z), [[0.25, 0.75], [1, 0]], rtol=1e-6)
    np.testing.assert_allclose(softmax(z, 0.5), [[0.1, 0.9], [1, 0]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.04, 1.0, 10.0])
def test_it_is_scipys_rounded_once_whatever_the_block(dtype: type, temperature: float) -> None:
    z = (30 * np.random.RandomState(0).randn(50, 7)).astype(dtype)
    expected = special.softmax(z.astype(np.float64) / temperature, axis=1)
    whole = softmax(z, temperature)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, expected, rtol=1e-6, atol=1e-38)
    with mock.patch.object(numerics, "BUFFER", 8 * 7 * 3):
        assert np.array_equal(softmax(z, temperature), whole)
    assert softmax(z[:0]).shape == (0, 7)
