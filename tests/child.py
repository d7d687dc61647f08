"""A child for the tests of processes: it does what its messages say, good and bad."""

import os
import sys

from dpviz import processes
from dpviz.processes import ParentConnection
from tests.waiting import until


def main() -> None:
    watching = processes.process_limits
    parent = ParentConnection(lambda message: message == b"aside")
    for message in parent.messages():
        word, _, number = bytes(message).partition(b" ")
        if word == b"watched":
            watching = processes.thread_limits
        elif word == b"memory":
            with watching(50e6, 60):
                try:
                    kept = [bytearray(b"\x01") * 10_000_000 for _ in range(int(number))]
                    while len(kept) > 20:  # until somebody notices
                        pass
                    parent.send([b"fits"])
                except MemoryError:
                    parent.send([b"too much"])
        elif word == b"time":
            with watching(1e9, float(number)):
                _ = 3 ** (10**9)  # for minutes, and nobody else in this process has a say meanwhile
        elif word == b"burn":
            with watching(1e9, float(number)):
                while True:
                    pass
        elif word == b"alone":
            until(lambda: sys.getrefcount(message) == 2)  # noqa: B023 (at once); this variable, and the argument
            parent.send([b"it is"])
        elif word == b"exit":
            os._exit(int(number))
        elif word == b"niceness":
            parent.send([str(os.getpriority(os.PRIO_PROCESS, 0)).encode()])
        else:
            print("this goes to the standard error", file=sys.stdout, flush=True)
            parent.send([b"<", message, b">"])


if __name__ == "__main__":
    main()
