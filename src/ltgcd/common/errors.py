"""The one exception that stands for bad input.

A person sees its message as a single sentence and the command exits with 2; any other exception is a bug.
"""

from __future__ import annotations


class InputError(ValueError):
    """Something is wrong with what the user gave; the message names it and says what to do."""


class BusyError(InputError):
    """Another process is writing to the same place just now; the message says who, as far as that is known."""
