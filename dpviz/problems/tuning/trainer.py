"""A process that trains for a run beside it. Started as `python -m dpviz.problems.tuning.trainer`, by `Trainers`."""

import time

from dpviz.messages import pack, unpack
from dpviz.one_thread import one_thread
from dpviz.problems.tuning.learners import LEARNERS
from dpviz.processes import Parent


def main() -> None:
    """Take a learner, then points, and answer with the losses there, until nobody asks any more."""
    parent = Parent(lambda _: False)
    messages = parent.messages()
    parent.send(pack({"ready": True}, {}))
    header, arrays = unpack(next(messages))
    learner = LEARNERS[header["learner"]](arrays, **header["settings"])
    for message in messages:
        header, arrays = unpack(message)
        began = time.process_time()
        with one_thread:  # as in the run beside it, whatever the environment says
            losses = learner.losses(arrays["points"])
        parent.send(pack(header | {"seconds": time.process_time() - began}, {"losses": losses}))


if __name__ == "__main__":
    main()
