"""Checksums of what is kept as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltgcd.common.checksums import checked_object, unchecked_object
from ltgcd.common.errors import InputError


@pytest.mark.parametrize("at", range(8))
def test_a_hit_on_the_name_of_the_checksum_is_damage(at: int) -> None:
    """Without the name the rest would count as what another tool wrote, with a part that nobody knows."""
    held = checked_object({"k": 5, "curve": [[4, 0.5]]})
    name = "checksum"[:at] + "X" + "checksum"[at + 1 :]
    with pytest.raises(InputError, match="is damaged"):
        unchecked_object({**{k: v for k, v in held.items() if k != "checksum"}, name: held["checksum"]}, Path("x"))
    assert unchecked_object({"k": 5, "code": "a" * 64}, Path("x")) == {"k": 5, "code": "a" * 64}
