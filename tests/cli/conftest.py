"""A shell in a folder of its own, where commands are said."""

import logging
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpviz.cli import main
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.exports.export import to_settings
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.privacy.budgets import NoPrivacy, PureDP
from dpviz.problems.linear.quadratic import Quadratic

EXPERIMENT = Experiment(
    problem=Quadratic(rows=100, dimension=2),
    arms=(
        Arm(label="NAG", algorithm=Nesterov(iterations=6)),
        Arm(label="GD #1", algorithm=GradientDescent(iterations=4)),
        Arm(label="floor", algorithm=GradientDescent(iterations=5), budget=NoPrivacy()),
    ),
    budget=PureDP(epsilon=2.0),
    replicates=3,
)
Said = tuple[int, str, str]  # exit code, stdout, stderr


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """As in a terminal: what is started with `&` inherits that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ctrl_c_is_heard: None
) -> Callable[..., Said]:
    """Does what is written, in a folder with `experiment.json` and a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPVIZ_STORE", str(tmp_path / "cells"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    log = logging.getLogger("dpviz")  # a command has its process for itself; the other tests want to hear again
    monkeypatch.setattr(log, "handlers", [*log.handlers])
    monkeypatch.setattr(log, "propagate", log.propagate)
    (tmp_path / "experiment.json").write_text(to_settings(EXPERIMENT))

    def say(command: str, *more: str) -> Said:
        code = main.run([*shlex.split(command), *more])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return say
