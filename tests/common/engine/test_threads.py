"""One thread for NumPy inside, as many as before afterwards, whoever enters and leaves in whatever order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import faiss
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

from ltgcd.common.engine.threads import numpy_in_one_thread

assert faiss.__name__ and scipy.linalg.__name__  # their BLAS is among those that are asked about


def threads() -> dict[str, int]:
    """How many threads each BLAS of this process computes in; that of FAISS as "faiss"."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return {"faiss" if "faiss" in each.filepath else each.filepath: each.num_threads for each in libraries}


@pytest.fixture(autouse=True)
def three() -> Iterator[None]:
    """Tests run in one thread a process; here there must be something to limit."""
    with threadpool_limits(3, user_api="blas"):
        assert set(threads().values()) == {3}
        yield


def test_numpy_has_one_and_faiss_keeps_its_own() -> None:
    before = threads()
    with numpy_in_one_thread():
        assert threads() == {name: 3 if name == "faiss" else 1 for name in before}
    assert threads() == before


def test_entered_again_inside_and_left_by_an_error() -> None:
    @numpy_in_one_thread()
    def fails() -> None:
        assert 1 in threads().values()
        raise ValueError

    with numpy_in_one_thread():
        with pytest.raises(ValueError):
            fails()
        assert 1 in threads().values(), "who entered first is still inside"
    assert set(threads().values()) == {3}


def test_who_entered_first_may_leave_first() -> None:
    inside, leave = threading.Event(), threading.Event()

    def second() -> None:
        with numpy_in_one_thread():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=second)
    with numpy_in_one_thread():
        other.start()
        assert inside.wait(10)
    assert 1 in threads().values(), "the other one is still inside"
    leave.set()
    other.join()
    assert set(threads().values()) == {3}
