"""A worker process from within: it gets a function, then shards, and says how it gets on; it never outlives its parent.

Its messages are pickles behind their length, in through stdin and out through what was stdout. The end of stdin means
that the parent wants it to stop, or is dead. Then it stops at once, whatever it is doing, and removes what it has half
written: another process may be about to work in the same folder.
"""

from __future__ import annotations

import _thread
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
import warnings
from typing import IO, Any

from ltgcd.common import progress
from ltgcd.common.engine import threads

STOP_SECONDS = 2.0  # for a computation that can't be interrupted
_LENGTH = struct.Struct("<Q")


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write a message behind its length."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream, also where it ends within one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None


def main() -> None:
    """Work until the parent lets go."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may ignore it
    parent = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints goes to stderr
    progress.is_shown = False  # the parent shows how far all of them are
    threads.is_one_of_many = True
    code = 0
    try:
        _work(sys.stdin.buffer, parent)
    except (KeyboardInterrupt, BrokenPipeError):  # the parent has let go
        pass
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)  # at once, for the other thread still listens: what is to be kept has been kept


def _work(stdin: IO[bytes], parent: IO[bytes]) -> None:
    inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(stdin, inbox), daemon=True).start()

    def say(what: str, content: Any = None) -> None:  # noqa: ANN401
        write_message(parent, pickle.dumps((what, content)))

    warnings.showwarning = lambda message, *_place, **_rest: say("warning", str(message))
    if (message := inbox.get()) is None:
        return
    try:
        prepare = pickle.loads(message)
    except Exception as error:  # whatever a module does when it is imported
        say("unloadable", f"{type(error).__name__}: {error}")
        return
    try:
        function = prepare()
        del prepare
        say("free")
        while (message := inbox.get()) is not None:
            result = function(pickle.loads(message), lambda items: say("advance", items))
            say("free", result)
    except BrokenPipeError:
        raise
    except Exception as error:
        say("error", (sendable(error), traceback.format_exc()))


def _listen(stdin: IO[bytes], inbox: queue.SimpleQueue[bytes | None]) -> None:
    while (message := read_message(stdin)) is not None:
        inbox.put(message)
    inbox.put(None)
    if hasattr(signal, "pthread_kill"):  # a real signal, which ends a wait for the disk, too
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
    time.sleep(STOP_SECONDS)
    os._exit(1)


def sendable(error: Exception) -> Exception:
    """An error that can be made again elsewhere: itself, or one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # some exceptions can't be made again from their arguments
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
