"""How many classes has nobody met? For labels drawn at random over the items of the collection: counts alone tell.

A class of n items has a labelled one with probability π = 1 − (1 − r)^n where a share r of all items is labelled: known
classes are then the large ones, and no measure of a novel class by the known ones is right. But how many classes have
one labelled item, two, three and four says how many have none (Good 1953). The estimate is iChao1 (Chiu, Wang, Walther
& Chao 2014, Biometrics 70), the interval Chao's (1987), log-normal in the number of unseen classes, with the variance
of a bootstrap. No feature takes part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

BOOTSTRAPS = 400


def unseen_classes(counts: NDArray[np.int64]) -> float:
    """The number f₀ of classes without a labelled item, by iChao1.

    f₀ = f₁(f₁ − 1) / (2(f₂ + 1)) + f₃/(4 f₄) · max(f₁ − f₂f₃/(2 f₄), 0), where f_m classes have m labelled items; the
    first term is Chao1 without its bias. Factors of 1 ± a few / n are left out as in its authors' code for large n.

    Parameters
    ----------
    counts : ndarray of int64, shape (classes,)
        Labelled items of each class; classes without one do not count.
    """
    f1, f2, f3, f4 = (float((counts == m).sum()) for m in (1, 2, 3, 4))
    f4 = max(f4, 1.0)
    return f1 * (f1 - 1) / (2 * (f2 + 1)) + f3 / (4 * f4) * max(f1 - f2 * f3 / (2 * f4), 0.0)


def missing_share(counts: NDArray[np.int64]) -> float:
    """Share of the items that are of classes without a labelled item: f₁ / n (Good–Turing)."""
    return float((counts == 1).sum() / max(counts.sum(), 1))


def richness(counts: NDArray[np.int64], level: float, random_state: int) -> tuple[float, float, float]:
    """The number of classes, and the ends of its interval.

    The bootstrap draws as many labels from classes as large as the counts say, where the missing share is divided
    among as many unseen classes as there seem to be.

    Parameters
    ----------
    counts : ndarray of int64, shape (classes,)
        Labelled items of each class.
    level : float
        Nominal coverage of the interval.
    random_state : int
        Seed.
    """
    counts = np.sort(counts[counts > 0])  # the numbers of the classes decide nothing
    seen, n, unseen = len(counts), int(counts.sum()), unseen_classes(counts)
    n_unseen = int(np.ceil(unseen))
    missing = min(missing_share(counts), 0.5) if n_unseen else 0.0  # only unseen classes leave nothing to be drawn from
    chance = np.concatenate([(1 - missing) * counts / n, np.full(n_unseen, missing / max(n_unseen, 1))])
    random = np.random.RandomState(random_state)
    drawn = np.array([unseen_classes(random.multinomial(n, chance)) for _ in range(BOOTSTRAPS)])
    if unseen <= 0:
        return float(seen), float(seen), float(seen + np.quantile(drawn, level))
    factor = np.exp(norm.ppf((1 + level) / 2) * np.sqrt(np.log1p(drawn.var() / unseen**2)))
    return float(seen + unseen), float(seen + unseen / factor), float(seen + unseen * factor)
