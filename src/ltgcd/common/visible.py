"""Names and ids as they may be printed: what a terminal would obey, or hide, is written out."""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, marks that turn the direction of writing, and lone surrogates.
# Joiners stay: scripts and emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""Write out what can't be seen, as Python does: an escape becomes ``\x1b``, a line end ``\n``.

    File names and class names come from anywhere. Printed raw, one with an escape sequence could clear the screen or
    show other text than it has. All else stays as it is, so that names of any language can be read.
    """
    return _HIDDEN.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
