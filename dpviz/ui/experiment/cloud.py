"""All runs of a run's methods as dots that move in a plane, step by step, for problems on public data that have one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Page(Protocol):
    """The part of a family's page that knows the plane in which the runs move."""

    def ground(self, run: Run, x: Ruler, y: Ruler, /) -> Background | None:
        """See `FamilyPage.ground`."""

    def region(self, run: Run, arm: Arm, /) -> tuple[np.ndarray, np.ndarray] | None:
        """See `FamilyPage.region`."""


def show(panel: Panel, run: Run, trace: Trace, currency: Currency, page: Page) -> bool:
    """Draw the runs of at most PANELS methods; return False where there is no plane, as for a user's file."""
    plane = run.experiment.problem.plane
    labels = [label for label, arm_trace in trace.lanes.items() if arm_trace.private and len(arm_trace.cloud) > 1]
    if plane is None or not labels:
        return False
    appearance = style.NOT_PRIVATE[theme()], presenting.scale()
    if appearance not in run.films:
        metric = next(iter(results.metrics(trace).values()), None)
        methods = _select_methods(trace, labels, metric)
        animation = _Film(run, trace, metric, currency, page).animation(plane, methods)
        sentences = [
            *_describe(run, animation),
            *[texts.CLOUD_LEFT_OUT] * (len(methods) < len(labels)),
            _privacy(run, trace, animation, metric),
        ]
        run.films[appearance] = clouds.packed(animation, *appearance), " ".join(sentences)
    film, caption = run.films[appearance]
    cloud.draw(panel.key("hero_cloud"), film)
    st.caption(caption)
    return True


def _select_methods(trace: Trace, labels: Sequence[str], metric: Metric | None) -> Sequence[str]:
    """Return the methods that have a panel: those that end lowest."""
    if len(labels) <= PANELS:
        return labels
    lowest = () if metric is None else pictured(trace.only(labels), metric.name, PANELS)
    return lowest or labels[:PANELS]


@dataclass(frozen=True)
class _Film:
    """A run, with the metric and the currency in the captions of its panels."""

    run: Run
    trace: Trace
    metric: Metric | None
    currency: Currency
    page: Page

    def animation(self, plane: Plane, labels: Sequence[str]) -> Animation:
        """Return the animation of the runs of methods in a plane."""
        steps = clouds.timeline(self.trace.cloud(label)[0] for label in labels)
        walks = [self.walk(label, steps) for label in labels]
        x, y = clouds.frame(plane.titles, [walk.places for walk in walks], plane.corners)
        ground = self.page.ground(self.run, x, y)
        if ground is not None:
            x, y = clouds.on_ground(plane.titles, ground)
        metric = "" if self.metric is None else _lower(self.metric)
        return Animation(steps, walks, x, y, metric, ground, plane.corners)

    def walk(self, label: str, steps: np.ndarray) -> Trajectories:
        """Return the runs of a method at `steps`."""
        run, trace = self.run, self.trace
        arm = next(arm for arm in run.experiment.arms if arm.label == label)
        without, region = _without(trace, run.experiment.arms, arm), self.page.region(run, arm)
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
        """Return medians of the metric over the runs at `steps`, as texts; empty if the method does not record it."""
        if self.metric is None:
            return []
        iterations, values = self.trace.series(label, self.metric.name)
        if not len(iterations):
            return []
        return [short(median) for median in clouds.held(iterations, quantiles(values)[:, 1], steps)]

    def spent(self, label: str, steps: np.ndarray) -> list[str]:
        """Return the privacy spent at `steps`, as texts, in the currency of the curves; empty if not finite."""
        used = spent_curve(self.trace, label, self.run.plans[label], self.currency)
        if not np.isfinite(used).all():
            return []
        symbol = f"{UNITS[self.currency].symbol}\u00a0="  # no line ends before the number
        return [
            f"{symbol}\u00a0{short_up(value)} spent"
            for value in used[np.minimum(steps, self.trace.lanes[label].iterations[-1])]
        ]


def _once(points: np.ndarray) -> np.ndarray:
    """Return a single run in place of all runs (k, R', 2) if they are the same."""
    return points[:, :1] if (points == points[:, :1]).all() else points


def _until_its_end(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return entries (T+1, ...) of a method at `steps`; after its last step T, its last entry."""
    return np.asarray(values[np.minimum(steps, len(values) - 1)])


def _without(trace: Trace, arms: Sequence[Arm], arm: Arm) -> str:
    """Return the label of the same update rule without privacy, of the same class and colour; "" if it was not run."""
    styles, rule = style.arm_styles(arms), type(arm.algorithm)
    labels = [other.label for other in arms if other.reference and type(other.algorithm) is rule]
    labels = [label for label in labels if label in trace.lanes and trace.lanes[label].cloud]
    return next((label for label in labels if styles[label].color == styles[arm.label].color), "")


def _lower(metric: Metric) -> str:
    """Return the label of a metric without its formula, for the inside of a sentence."""
    label = re.sub(r" (F\(|f\(|‖)[^,]*", "", metric.label)
    return label[0].lower() + label[1:]


def _describe(run: Run, animation: Animation) -> list[str]:
    """Return sentences that explain the picture."""
    shades = texts.CLOUD_SECTION if run.experiment.problem.facts().d > 2 else texts.CLOUD_GROUND
    return [
        texts.CLOUD_MOVES,
        *[f"{animation.x.title}. {animation.y.title}."] * bool(animation.corners),
        *[texts.CLOUD_REGION] * any(walk.region is not None for walk in animation.walks),
        *[shades] * (animation.ground is not None),
    ]


def _privacy(run: Run, trace: Trace, animation: Animation, metric: Metric | None) -> str:
    """Say which parts of the picture may be published."""
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
    parts = " and ".join([", ".join(raw[:-1]), raw[-1]] if raw[1:] else raw)
    return f"{released} **Not private**, since they read the raw data, which are public here: {parts}."
