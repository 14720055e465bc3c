"""Which unlabelled items are likely to be of no known class? Where the labels can tell, novel classes begin among them.

The evidence is that of the class number (`ltgcd.class_number.known_share`): every labelled item is looked at as it is
and with its own class hidden, and what tells the two apart is asked of the unlabelled items. How well it does so on
labelled items that it was not learnt from, its AUC, says whether it is worth listening to.

On texts it is nearly always right (AUC .98), and communities that are looked for among the likely novel items alone are
purer than those of all items, of which the known classes take their part. On fine-grained images (AUC .66 to .87) it
is not, and the items that it leaves out are missed: rehearsals with hidden classes were no better for it there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.class_number.evidence import NEIGHBOURS, recoded
from ltgcd.class_number.known_share import known_share
from ltgcd.data.collection import UNLABELLED
from ltgcd.graph.feature_graph import FeatureGraph, components_of

TELLS = 0.9  # AUC from which the evidence is listened to
LARGEST = 200_000  # items; beyond, a second search for neighbours would cost more than it brings


def probably_novel(
    x: NDArray[np.floating],
    placed: NDArray[np.int64],
    random_state: int = 0,
    components: FeatureGraph | None = None,
) -> NDArray[np.bool_] | None:
    """Items (N,) that are more likely of a class that is not there yet than of one that is; None if nothing can tell.

    Parameters
    ----------
    x : ndarray, shape (N, D)
        Features before any whitening.
    placed : ndarray of int64, shape (N,)
        Known class of each labelled item, or the category that people have left it in; -1 for the others.
    random_state : int
        Seed.
    components : FeatureGraph, optional
        `components_of` the features, where somebody has them already.
    """
    free = placed == UNLABELLED
    sizes = np.bincount(placed[~free], minlength=1)
    classes = np.flatnonzero(sizes >= 2)  # an item without a sibling looks novel itself
    if len(classes) < 2 or not free.any() or len(x) > LARGEST:
        return None
    components = components or components_of(x)
    y = recoded(placed, classes)
    found = known_share(components.features, y, components.nearest(NEIGHBOURS), random_state)
    if found.auc < TELLS:
        return None
    novel = np.zeros(len(x), dtype=bool)
    novel[y == UNLABELLED] = found.posterior() < 0.5
    novel[~free] = False
    return novel
