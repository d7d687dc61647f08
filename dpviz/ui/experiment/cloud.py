"""All runs of a run's methods as dots that move in a plane, step by step, for problems on public data that have one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from dpviz.experiments.experiment import Arm
from dpviz.experiments.results import quantiles, spent_curve
from dpviz.experiments.summary import pictured
from dpviz.experiments.trace import Trace
from dpviz.numbers import short, short_up
from dpviz.plots import clouds
from dpviz.plots.clouds import Animation, Background, Trajectories
from dpviz.plots.elements import style
from dpviz.plots.elements.sheets import Ruler
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.problems.base import Metric, Plane
from dpviz.ui import explain, presenting
from dpviz.ui.appearance import theme
from dpviz.ui.components import cloud
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment.run import Run

PANELS = 3


def _nothing(*_: Any) -> None:
    """A family that knows nothing of it."""


@dataclass(frozen=True)
class PlaneView:
    """What a family knows of the plane in which its runs move.

    ground : the objective, given the axes that show the runs; they become those of the ground. region : centres and
    half axes (T+1, 2) of the ellipses that should hold about 90 % of the runs of an arm after each step, by theory.
    """

    ground: Callable[[Run, Ruler, Ruler], Background | None] = _nothing
    region: Callable[[Run, Arm], tuple[np.ndarray, np.ndarray] | None] = _nothing


def show(panel: Panel, run: Run, trace: Trace, currency: Currency, scenery: PlaneView) -> bool:
    """The runs of at most three methods; False where there is no plane, as for a user's file."""
    plane = run.experiment.problem.plane
    labels = [label for label, lane in trace.lanes.items() if lane.private and len(lane.cloud) > 1]
    if plane is None or not labels:
        return False
    look = style.NOT_PRIVATE[theme()], presenting.scale()
    if look not in run.films:
        metric = next(iter(results.metrics(trace).values()), None)
        chosen = _chosen(trace, labels, metric)
        animation = _Filmed(run, trace, metric, currency, scenery).animation(plane, chosen)
        words = [
            *_words(run, animation),
            *[texts.CLOUD_LEFT_OUT] * (len(chosen) < len(labels)),
            _privacy(run, trace, animation, metric),
        ]
        run.films[look] = clouds.packed(animation, *look), " ".join(words)
    film_sent, caption = run.films[look]
    cloud.draw(panel.key("hero_cloud"), film_sent)
    st.caption(caption)
    return True


def _chosen(trace: Trace, labels: Sequence[str], metric: Metric | None) -> Sequence[str]:
    """The methods that have a panel: those that end lowest."""
    if len(labels) <= PANELS:
        return labels
    lowest = () if metric is None else pictured(trace.only(labels), metric.name, PANELS)
    return lowest or labels[:PANELS]


@dataclass(frozen=True)
class _Filmed:
    """A run, and what is told of it below its panels."""

    run: Run
    trace: Trace
    metric: Metric | None
    currency: Currency
    scenery: PlaneView

    def animation(self, plane: Plane, labels: Sequence[str]) -> Animation:
        """The runs of these methods in a plane."""
        steps = clouds.timeline(self.trace.cloud(label)[0] for label in labels)
        walks = [self.walk(label, steps) for label in labels]
        x, y = clouds.frame(plane.titles, [walk.places for walk in walks], plane.corners)
        ground = self.scenery.ground(self.run, x, y)
        if ground is not None:
            x, y = clouds.on_ground(plane.titles, ground)
        told = "" if self.metric is None else _lower(self.metric)
        return Animation(steps, walks, x, y, told, ground, plane.corners)

    def walk(self, label: str, steps: np.ndarray) -> Trajectories:
        """The runs of a method at these steps."""
        run, trace = self.run, self.trace
        arm = next(arm for arm in run.experiment.arms if arm.label == label)
        without, region = _without(trace, run.experiment.arms, arm), self.scenery.region(run, arm)
        return Trajectories(
            label,
            style.arm_styles(run.experiment.arms)[label].color,
            clouds.held(*trace.cloud(label), steps),
            trace.lanes[label].iterations[-1],
            plainly=_once(clouds.held(*trace.cloud(without), steps)) if without else None,
            without=without,
            region=None if region is None else (_until_its_end(region[0], steps), _until_its_end(region[1], steps)),
            median=self.medians(label, steps),
            spent=self.spent(label, steps),
        )

    def medians(self, label: str, steps: np.ndarray) -> list[str]:
        """Of the metric, over the runs; empty if the method does not record it."""
        if self.metric is None:
            return []
        iterations, values = self.trace.series(label, self.metric.name)
        if not len(iterations):
            return []
        return [short(median) for median in clouds.held(iterations, quantiles(values)[:, 1], steps)]

    def spent(self, label: str, steps: np.ndarray) -> list[str]:
        """Of the budget, until the method ended, in the currency of the curves; empty where that does not count it."""
        used = spent_curve(self.trace, label, self.run.plans[label], self.currency)
        if not np.isfinite(used).all():
            return []
        symbol = f"{UNITS[self.currency].symbol}\u00a0="  # no line ends before the number
        return [
            f"{symbol}\u00a0{short_up(value)} spent"
            for value in used[np.minimum(steps, self.trace.lanes[label].iterations[-1])]
        ]


def _once(places: np.ndarray) -> np.ndarray:
    """One run for all of them (k, R', 2) where they are the same."""
    return places[:, :1] if (places == places[:, :1]).all() else places


def _until_its_end(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The entries (T+1, ...) of a method at these steps; of the last of its own, after it."""
    return np.asarray(values[np.minimum(steps, len(values) - 1)])


def _without(trace: Trace, arms: Sequence[Arm], arm: Arm) -> str:
    """The label of the same update rule without privacy, if it was run beside it: of the same class and colour."""
    looks, rule = style.arm_styles(arms), type(arm.algorithm)
    found = [other.label for other in arms if other.reference and type(other.algorithm) is rule]
    found = [label for label in found if label in trace.lanes and trace.lanes[label].cloud]
    return next((label for label in found if looks[label].color == looks[arm.label].color), "")


def _lower(metric: Metric) -> str:
    """The words of a metric without its formula, inside a sentence."""
    words = re.sub(r" (F\(|f\(|‖)[^,]*", "", metric.label)
    return words[0].lower() + words[1:]


def _words(run: Run, animation: Animation) -> list[str]:
    """What is drawn."""
    shades = texts.CLOUD_SECTION if run.experiment.problem.facts().d > 2 else texts.CLOUD_GROUND
    return [
        texts.CLOUD_MOVES,
        *[f"{animation.x.title}. {animation.y.title}."] * bool(animation.corners),
        *[texts.CLOUD_REGION] * any(walk.region is not None for walk in animation.walks),
        *[shades] * (animation.ground is not None),
    ]


def _privacy(run: Run, trace: Trace, animation: Animation, metric: Metric | None) -> str:
    """What of the picture may be published."""
    experiment = run.experiment
    raw = ["the grey dots"] * any(walk.plainly is not None for walk in animation.walks)
    raw += ["the shades"] * animation.raw
    if (
        metric is not None
        and "not private" in trace.only([walk.label for walk in animation.walks]).statuses(metric).values()
    ):
        raw.append(f"the {animation.metric}")
    released = explain.released(experiment, experiment.replicates)
    if not raw:
        return released
    read = " and ".join([", ".join(raw[:-1]), raw[-1]] if raw[1:] else raw)
    return f"{released} **Not private**, since they read the raw data, which are public here: {read}."
