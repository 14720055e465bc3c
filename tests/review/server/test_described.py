"""What is mended after an action is what would be found by looking at everything anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.review.server.synthetic import make_run

from ltgcd.review.server import lookups
from ltgcd.review.server.described import Described
from ltgcd.review.server.session import Session
from ltgcd.review.state import Review, replay

N, K = 90, 6


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("described") / "run"
    make_run(folder, n=N, d=6, k=K, n_old=3)
    return Session.open(folder)


def some_event(draw: Any, review: Review) -> dict[str, Any] | None:
    """An edit of any kind that makes sense in a state, or None."""
    codes = sorted(review.class_names())
    rows = draw(st.lists(st.integers(0, N - 1), min_size=1, max_size=30, unique=True))
    code, other = draw(st.sampled_from(codes[:4])), draw(st.sampled_from(codes))
    mine = np.flatnonzero(review.code == code).tolist()
    kinds: dict[str, dict[str, Any] | None] = {
        "assign": {"op": "assign", "rows": rows, "code": code},
        "accept": {"op": "assign", "rows": mine, "code": code} if mine else None,
        "one": {"op": "assign", "rows": mine[:1], "code": code} if mine else None,
        "doubt": {"op": "reject", "rows": mine, "code": code} if mine else None,  # then none of it is sure
        "clear": {"op": "clear", "rows": rows},
        "junk": {"op": "junk", "rows": rows},
        "reject": {"op": "reject", "rows": rows, "code": code},
        "create": {"op": "create", "code": review.next_code, "name": f"made {review.next_code}"},
        "rename": {"op": "rename", "code": code, "name": f"called {draw(st.integers(0, 10**6))}-{code}"},
        "merge": {"op": "merge", "code": code, "into": other} if code != other else None,
        "split": {"op": "split", "code": code, "parts": [mine[::2]], "codes": [review.next_code]} if mine else None,
        "distinct": {"op": "distinct", "code": code, "other": other} if code != other else None,
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


def figures(described: Described) -> dict[str, Any]:
    now = described.now
    columns = {name: getattr(now, name).tolist() for name in ("code", "status", "given", "sure", "members", "examples")}
    shown = described.classes()
    k = max(described.names) + 1  # codes behind the last class may have been made and taken back
    return {
        **columns,
        "confidence": now.confidence.tolist(),
        "classes": shown,
        "doubt": described.doubt(np.arange(N)).tolist(),
        "merges": lookups.merges(described, None),
        "rows": {one["code"]: lookups.rows_of_class(described, one["code"]).tolist() for one in shown},
        "tally": (described.tally.statuses.tolist(), described.tally.given_items, described.tally.settled),
        "sums": [described.shapes.sums[:k].tolist(), described.example_shapes.sums[:k].tolist()],
    }


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_mending_gives_what_looking_anew_gives(opened: Session, data: st.DataObject) -> None:
    z, y, review = opened.material.z, opened.material.y, opened.held.review
    described = Described(z, y, review)
    states = [review]
    for _step in range(data.draw(st.integers(1, 9))):
        if len(states) > 1 and data.draw(st.integers(0, 3)) == 0:  # undo
            gone = states.pop()
            after = states[-1].with_next_code(gone.next_code)
        else:
            event = some_event(data.draw, states[-1])
            if event is None:
                continue
            after = replay(states[-1], [event])
            states.append(after)
        before = described.now.code.copy(), described.now.status.copy(), described.now.given.copy()
        rows = described.update(after)
        fresh = Described(z, y, after)
        assert figures(described) == figures(fresh)
        now = fresh.now
        differs = (before[0] != now.code) | (before[1] != now.status) | (before[2] != now.given)
        assert rows.tolist() == np.flatnonzero(differs).tolist()


def test_the_states_of_a_review_are_not_written_into(opened: Session) -> None:
    review = opened.held.review
    before = [getattr(review, name).copy() for name in ("code", "given", "junk", "unsure")]
    described = Described(opened.material.z, opened.material.y, review)
    described.update(replay(review, [{"op": "junk", "rows": [1, 2]}, {"op": "merge", "code": 4, "into": 5}]))
    for held, name in zip(before, ("code", "given", "junk", "unsure"), strict=True):
        np.testing.assert_array_equal(getattr(review, name), held)
