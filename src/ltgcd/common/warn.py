"""Warnings of a library are about the line of the user's that called it, however deep they arise."""

from __future__ import annotations

import sys
import warnings

PASSED = (
    "ltgcd",
    "contextlib",
)  # packages whose frames are not the user's; a function in a `with` is called by the last


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn where the user's code called into ltgcd."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level)
