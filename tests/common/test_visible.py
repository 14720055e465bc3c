from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ltgcd.common.visible import visible


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert visible("\x1b[31mred\x1b[0m") == r"\x1b[31mred\x1b[0m"
    assert visible("a\nb\tc\r\x07\x7f\x9b") == r"a\nb\tc\r\x07\x7f\x9b"
    assert visible("photo\u202egnp.exe") == r"photo\u202egnp.exe"
    assert visible("caf\udce9") == r"caf\udce9"
    assert visible("Größe 猫 👩\u200d🔬 C:\\x") == "Größe 猫 👩\u200d🔬 C:\\x"


@given(st.text(st.characters()))
def test_any_text_can_be_printed(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in shown)
    assert visible(shown) == shown
