"""The columns of a review, mended where an action changed something."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltgcd.data.collection import UNLABELLED
from ltgcd.discovery.classes import JUNK, KNOWN, NOVEL, UNSURE
from ltgcd.output.report.tally import Now, columns_of, mask_of
from ltgcd.review.state import Review


def columns_of_review(review: Review, labelled: NDArray[np.bool_]) -> Now:
    """The columns of a review of items of which some (N,) are labelled in the source."""
    return columns_of(review.code.copy(), review.status_code, review.confidence, review.given, labelled)


def mended(
    now: Now,
    review: Review,
    labelled: NDArray[np.bool_],
    rows: NDArray[np.int64],
    found_confidence: NDArray[np.float32],
) -> None:
    """Mend the columns in some rows; what shows a class (`members`) is left to be mended."""
    code, given, junk = review.code[rows], review.given[rows], review.junk[rows]
    known = mask_of(np.array(sorted(review.known_classes()), dtype=np.int64), review.next_code)[code]
    status = np.where(junk, JUNK, np.where(review.unsure[rows], UNSURE, np.where(known, KNOWN, NOVEL)))
    sure = status < UNSURE
    now.code[rows], now.status[rows], now.sure[rows] = code, status, sure
    now.confidence[rows] = np.where(given, np.float32(1), found_confidence[rows])
    now.given[rows] = given | junk
    now.examples[rows] = np.where((given | labelled[rows]) & sure, code, UNLABELLED)
