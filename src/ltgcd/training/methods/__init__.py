"""Every method: the paper's, its rivals, ours. A new one is a file here that makes a `Method`, and a line in `METHODS`.

The names in help texts, error messages and documents are taken from here.
"""

from __future__ import annotations

from collections.abc import Callable

from ltgcd.common.errors import InputError
from ltgcd.training.method import Method
from ltgcd.training.methods import clusterings, gcd, ltgcd, orca, rankstats, simgcd, uno

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        clusterings.KMEANS,
        clusterings.SEMI_KMEANS,
        ltgcd.METHOD,
        ltgcd.WITH_CREST,
        simgcd.METHOD,
        gcd.METHOD,
        orca.METHOD,
        uno.METHOD,
        rankstats.METHOD,
    )
}


def method_names(where: Callable[[Method], bool] = lambda _method: True) -> list[str]:
    """Names of all methods, or of some: ``method_names(lambda method: method.has_prototypes)``."""
    return [name for name, method in METHODS.items() if where(method)]


def trained_names() -> list[str]:
    """Names of the methods that are trained; the others only cluster."""
    return method_names(lambda method: method.trained)


def get_method(name: str, *, trained: bool = False) -> Method:
    """The method of this name, or a sentence with all names; with `trained`, only of those that are trained."""
    names = trained_names() if trained else method_names()
    if name in names:
        return METHODS[name]
    kind = "trained method" if trained else "method"
    raise InputError(f"There is no {kind} '{name}'; choose one of {', '.join(names)}.")
