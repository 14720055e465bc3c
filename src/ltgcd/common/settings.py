"""Check the fields of a configuration: choices and ranges."""

from __future__ import annotations

import math
from typing import Literal, get_args, get_origin, get_type_hints

from ltgcd.common.errors import InputError


def check_fields(config: object, of: str = "", **ranges: tuple[float, float]) -> None:
    """Refuse fields of a configuration that are none of their choices or outside of their range.

    Parameters
    ----------
    config : dataclass
        Its `Literal` fields are held to their choices.
    of : str
        Whose fields they are, for the sentence: "the selection".
    **ranges : tuple of float
        Least and largest value of a field by its name, both allowed; infinity and NaN never are.
    """
    whose = f" of {of}" if of else ""
    for name, kind in get_type_hints(type(config)).items():
        choices, value = get_args(kind), getattr(config, name)
        if get_origin(kind) is Literal and value not in choices:
            raise InputError(f"'{name}'{whose} is one of {', '.join(choices)}, not '{value}'.")
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        # NaN compares false with everything, so this asks what is allowed and not what isn't.
        if least <= value <= most and value < math.inf:
            continue
        wanted = f"is a number from {least}" if most == math.inf else f"lies between {least} and {most}"
        raise InputError(f"'{name}'{whose} {wanted}, but is {value}.")
