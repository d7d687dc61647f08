"""The face "Cloud" of a page's picture: the repeats of each method as dots that move in a plane, step by step.

It exists only for problems on public data that define such a plane.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import streamlit as st

from dpviz.experiments.experiment import Arm
from dpviz.experiments.results import quantiles, spent_curve
from dpviz.experiments.summary import arms_to_draw
from dpviz.experiments.trace import Trace
from dpviz.numbers import short, short_up
from dpviz.plots import clouds
from dpviz.plots.clouds import Animation, Background, Trajectories
from dpviz.plots.elements import style
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.problems.base import Metric, Plane
from dpviz.ui import explain, presenting
from dpviz.ui.appearance import theme
from dpviz.ui.components import cloud
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment.run import Run

PANELS = 3  # largest number of methods in the picture, each in a panel of its own


class Page(Protocol):
    """The part of a family's page that knows the plane in which the runs move. `FamilyPage` has the details."""

    def ground(self, run: Run, x: FixedAxis, y: FixedAxis, /) -> Background | None:
        """Return the objective to draw behind the dots, on axes x and y or its own; None if it cannot be drawn."""

    def region(self, run: Run, arm: Arm, /) -> tuple[np.ndarray, np.ndarray] | None:
        """Return centres and half axes, (T+1, 2) each, of ellipses in which theory expects an arm's repeats after each
        step; None without such a theory."""


def show(panel: Panel, run: Run, trace: Trace, currency: Currency, page: Page) -> bool:
    """Draw the repeats of at most PANELS private methods as an animation, with a caption.

    Draws nothing and returns False if the problem has no plane, as on a user's file, or no method has moved.
    The run keeps the finished film, because packing it takes long and the page is drawn again often.

    run : one that has ended, as the film is not made again. trace : the part of its results that may be shown.
    currency : in which the panels state the privacy spent.
    """
    plane = run.experiment.problem.plane
    moving = [label for label, arm_trace in trace.arm_traces.items() if arm_trace.private and len(arm_trace.cloud) > 1]
    if plane is None or not moving:
        return False
    # All that a film depends on, besides its run: the colour of the mark "not private", and the scale of type.
    appearance = style.NOT_PRIVATE[theme()], presenting.scale()
    if appearance not in run.films:
        metrics = list(results.metrics(trace).values())
        metric = metrics[0] if metrics else None
        methods = _select_methods(trace, moving, metric)
        animation = _Film(run, trace, metric, currency, page).animation(plane, methods)
        sentences = _describe(run, animation)
        if len(methods) < len(moving):
            sentences.append(texts.CLOUD_LEFT_OUT)
        sentences.append(_privacy(run, trace, animation, metric))
        run.films[appearance] = clouds.animation_bytes(animation, *appearance), " ".join(sentences)
    film, caption = run.films[appearance]
    cloud.draw(panel.key("hero_cloud"), film)
    st.caption(caption)
    return True


def _select_methods(trace: Trace, labels: Sequence[str], metric: Metric | None) -> Sequence[str]:
    """Return at most PANELS of the methods `labels`: those that end lowest in the metric, or without one the first."""
    if len(labels) <= PANELS:
        return labels
    lowest = () if metric is None else arms_to_draw(trace.only(labels), metric.name, PANELS)
    return lowest or labels[:PANELS]  # none is lowest if no method ends with a number


@dataclass(frozen=True)
class _Film:
    """The maker of a run's animation.

    metric, currency : the quantities that the caption of each panel states at each step; no metric if None. In the
    methods, `steps` (k,) are those of the film.
    """

    run: Run
    trace: Trace
    metric: Metric | None
    currency: Currency
    page: Page

    def animation(self, plane: Plane, labels: Sequence[str]) -> Animation:
        """Return the animation of the repeats of the methods `labels` in a plane, all on the same axes."""
        recorded_steps = [steps for steps, _positions in map(self.trace.cloud, labels)]
        steps = clouds.timeline(recorded_steps)  # some of them
        walks = [self.walk(label, steps) for label in labels]
        x, y = clouds.axes_around(plane.titles, [walk.places for walk in walks], plane.corners)
        background = self.page.ground(self.run, x, y)
        if background is not None:
            x, y = clouds.axes_of_background(plane.titles, background)  # it may show another part of the plane
        metric = "" if self.metric is None else _in_sentence(self.metric)
        return Animation(steps, walks, x, y, metric, background, plane.corners)

    def walk(self, label: str, steps: np.ndarray) -> Trajectories:
        """Return the positions of a method's repeats at `steps`, those without privacy, and the method's captions."""
        run, trace = self.run, self.trace
        (arm,) = (arm for arm in run.experiment.arms if arm.label == label)
        reference = _label_without_privacy(trace, run.experiment.arms, arm)
        reference_points = None
        if reference:
            # (k, R, 2), of R repeats: each stays at its last record until the next one.
            reference_points = clouds.values_at_steps(*trace.cloud(reference), steps)
            first_repeat = reference_points[:, :1]
            if (reference_points == first_repeat).all():  # as without noise and batches: one dot is enough
                reference_points = first_repeat
        region = self.page.region(run, arm)
        if region is not None:
            centres, half_axes = region
            region = _at_steps(centres, steps), _at_steps(half_axes, steps)
        return Trajectories(
            label,
            style.arm_styles(run.experiment.arms)[label].color,
            places=clouds.values_at_steps(*trace.cloud(label), steps),
            last=trace.arm_traces[label].iterations[-1],
            other_places=reference_points,
            other_label=reference,
            region=region,
            median=self.medians(label, steps),
            spent=self.spent(label, steps),
        )

    def medians(self, label: str, steps: np.ndarray) -> list[str]:
        """Return the median of the metric over the repeats at each of `steps`, as text; [] if it is not recorded."""
        if self.metric is None:
            return []
        iterations, values = self.trace.series(label, self.metric.name)
        if not len(iterations):
            return []
        medians = quantiles(values)[:, 1]  # the columns are the 10 %, 50 % and 90 % quantiles
        return [short(median) for median in clouds.values_at_steps(iterations, medians, steps)]

    def spent(self, label: str, steps: np.ndarray) -> list[str]:
        """Return the privacy that a method has spent at each of `steps`, such as "ε = 0.5 spent"; [] if not finite."""
        spent_after = spent_curve(self.trace, label, self.run.plans[label], self.currency)  # (T+1,): after steps 0..T
        if not np.isfinite(spent_after).all():
            return []
        last_step = self.trace.arm_traces[label].iterations[-1]
        symbol = f"{UNITS[self.currency].symbol}\u00a0="  # no-break spaces: no line ends before the number
        until_last_step = np.minimum(steps, last_step)  # a method that has ended spends no more
        return [f"{symbol}\u00a0{short_up(value)} spent" for value in spent_after[until_last_step]]


def _at_steps(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the entries of `values` (T+1, ...), one for each step 0..T, at `steps`; after step T, the last entry."""
    return np.asarray(values[np.minimum(steps, len(values) - 1)])


def _label_without_privacy(trace: Trace, arms: Sequence[Arm], arm: Arm) -> str:
    """Return the label of the reference with the update rule of `arm` but no noise; "" if it has recorded no positions.

    Several references may share the class of an algorithm; the one of the same rule is drawn in the arm's colour.
    """
    styles = style.arm_styles(arms)
    for other in arms:
        is_same_rule = (
            type(other.algorithm) is type(arm.algorithm) and styles[other.label].color == styles[arm.label].color
        )
        if other.reference and is_same_rule and other.label in trace.arm_traces and trace.arm_traces[other.label].cloud:
            return other.label
    return ""


def _in_sentence(metric: Metric) -> str:
    """Return the label of a metric without its formula, for the inside of a sentence."""
    label = re.sub(r" (F\(|f\(|‖)[^,]*", "", metric.label)  # a formula begins like this, and ends at a comma
    return label[0].lower() + label[1:]


def _describe(run: Run, animation: Animation) -> list[str]:
    """Return the sentences of the caption that explain dots, axes, ellipses and shades, as far as these are drawn."""
    sentences = [texts.CLOUD_MOVES]
    if animation.corners:  # a polygon is drawn without axes, so their titles are in the caption
        sentences.append(f"{animation.x.title}. {animation.y.title}.")
    if any(walk.region is not None for walk in animation.walks):
        sentences.append(texts.CLOUD_REGION)
    if animation.ground is not None:  # in more than two dimensions the plane is only a section
        sentences.append(texts.CLOUD_SECTION if run.experiment.problem.facts().d > 2 else texts.CLOUD_GROUND)
    return sentences


def _privacy(run: Run, trace: Trace, animation: Animation, metric: Metric | None) -> str:
    """Return sentences that name the guarantee of the picture, and its parts that no guarantee covers.

    metric : the quantity in the captions of the panels, None if they have none.
    """
    experiment = run.experiment
    raw_parts = []
    if any(walk.other_places is not None for walk in animation.walks):  # repeats of a method without privacy
        raw_parts.append("the grey rings")
    if animation.raw:  # the objective behind the dots follows from the data
        raw_parts.append("the shades")
    if metric is not None:
        in_panels = trace.only([walk.label for walk in animation.walks])
        if "not private" in in_panels.statuses(metric).values():
            raw_parts.append(f"the {animation.metric}")
    released = explain.release_sentence(experiment, experiment.replicates, len(animation.walks))
    if not raw_parts:
        return released
    *first_parts, last_part = raw_parts
    parts = f"{', '.join(first_parts)} and {last_part}" if first_parts else last_part
    return f"{released} **Not private**, since they read the raw data, which are public here: {parts}."
