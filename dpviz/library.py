"""Short forms of the library's most frequent uses: an ε, a noise scale, an audit, saved settings."""

import json
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from dpviz import families
from dpviz.arguments import Between, Delta, Positive, checked
from dpviz.audits.audit import Audit, Case, Neighbours, Runs, Seed, Verdict
from dpviz.errors import UserError
from dpviz.execution.auditing import Auditing
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.later import require_package
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.calibration import calibrate_gaussian, calibrate_laplace
from dpviz.privacy.events import Event
from dpviz.sweeps.sweep import Sweep

Settings = Experiment | Sweep | Auditing
Releases = Annotated[int, Between(1, 10**6, ends=True)]
_KINDS: tuple[type[Settings], ...] = (Experiment, Sweep, Auditing)


@checked
def epsilon(of: Budget | Plan | Event | Sequence[Event], delta: Delta) -> float:
    """Compute the smallest ε that is proven at δ.

    Parameters
    ----------
    of : Budget, Plan, Event or sequence of Events
        A budget, whose guarantee is converted; or releases, which the tightest accountant that applies composes. Those
        of a plan count for all rows of a person if it protects people.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Infinity where no ε is proven at this δ.

    Raises
    ------
    UserError
        If δ is not between 0 and 1, or releases draw batches in two ways.

    Source
    ------
    `dpviz/privacy/THEORY.md`, sections 3 (conversions), 8 to 10 (accountants).

    Examples
    --------
    >>> import dpviz
    >>> round(dpviz.epsilon(dpviz.GaussianDP(mu=1), delta=1e-6), 2)
    4.89
    >>> from dpviz.privacy.events import Laplace, Sub
    >>> round(dpviz.epsilon([Sub("wor", 100, 1000, Laplace(1.0))] * 100, delta=1e-6), 2)
    5.24
    """
    if isinstance(of, Budget):
        value = of.to_epsilon_at(delta)
        return float("inf") if value is None else value
    if isinstance(of, Plan):  # its statement is the plan as it protects all rows of a person
        # Releases before the run, by which facts such as ranges were learned, count, too.
        return accountants.tightest(of.statement.events, delta, prior=of.statement.facts.released).epsilon
    events = of if isinstance(of, Sequence) else [of]
    return accountants.tightest(events, delta).epsilon


@checked
def calibrate(
    budget: Budget,
    releases: Releases = 1,
    *,
    sensitivity: Positive = 1.0,
    noise: Literal["laplace", "gaussian"] | None = None,
) -> float:
    """Compute the scale of noise with which several releases with equal noise use up a budget.

    Parameters
    ----------
    budget : Budget
    releases : int
        Number of releases, each of which reads all rows: a million at most.
    sensitivity : float
        Largest change of a release by one row: in the L1 norm for Laplace noise, in the L2 norm for Gaussian noise.
    noise : "laplace" or "gaussian", optional
        By default Laplace noise for pure ε, Gaussian noise for the others.

    Returns
    -------
    float
        The scale b of Laplace noise, or the standard deviation σ of Gaussian noise, in the unit of the sensitivity.

    Raises
    ------
    UserError
        If no noise of this kind meets the budget, or a number is out of range.

    Source
    ------
    `dpviz/privacy/THEORY.md`, sections 7 and 8.

    Examples
    --------
    >>> import dpviz
    >>> dpviz.calibrate(dpviz.PureDP(epsilon=1), releases=10)
    10.0
    >>> round(dpviz.calibrate(dpviz.GaussianDP(mu=1), releases=100, sensitivity=2.0), 6)
    20.0
    """
    if not budget.private:
        raise UserError("Without a guarantee there is no noise to choose. Give a budget, such as PureDP(epsilon=1).")
    kind = noise or ("laplace" if budget.pure else "gaussian")
    # Equal weights, so the first of the equal costs is taken; m = n: all rows are read, no batches are drawn.
    weights = np.ones(releases)
    if kind == "laplace":
        epsilon_each = calibrate_laplace(budget, weights, m=1, n=1)[0]
        return float(sensitivity / epsilon_each)  # ε = Δ/b
    rho_each = calibrate_gaussian(budget, weights, m=1, n=1)[0]
    return float(sensitivity / np.sqrt(2 * rho_each))  # ρ = Δ²/(2σ²)


@checked
def audit(
    method: type[AnyAlgorithm] | AnyAlgorithm,
    budget: Budget | None = None,
    *,
    neighbours: Neighbours | None = None,
    runs: Runs = 10_000,
    seed: Seed | None = None,
) -> Verdict:
    """Attack a method on its worst known pair of data sets, or on a pair of your own, and test its releases.

    Parameters
    ----------
    method : Algorithm or its class
        Only the class of an algorithm matters, as its audit has settings of its own, on a few rows. With `neighbours`
        any algorithm, whose settings are then used.
    budget : Budget, optional
        The budget that the method claims to keep. By default the first one of its audit, or pure ε = 1.
    neighbours : Neighbours, optional
        Two data sets that differ in one row, such as those of `dpviz.extend.neighbours`.
    runs : int
        Number of runs on each of the two data sets, fixed in advance.
    seed : int, optional
        Drawn if None.

    Returns
    -------
    Verdict
        A lower bound on the claim with 95 % confidence, which can refute it, never prove it; and whether the
        mechanisms released what was declared. Only the attack sees rows that a method uses past the mechanisms.

    Raises
    ------
    UserError
        If there is no audit of the method, or the method does not exist for this budget.

    Source
    ------
    Jagielski, Ullman, Oprea (2020); `dpviz/privacy/THEORY.md`, section 12.

    Examples
    --------
    >>> import dpviz
    >>> dpviz.audit(dpviz.GradientDescent, dpviz.PureDP(epsilon=1), runs=2_000, seed=1).violation
    False
    """
    if neighbours is not None:
        algorithm = method() if isinstance(method, type) else method
        claimed = PureDP(epsilon=1.0) if budget is None else budget
        title = algorithm.title or type(algorithm).__name__
        case = Case(
            algorithm.kind, title, algorithm, canary="One row differs.", budgets=(claimed,), data=lambda: neighbours
        )
        return Audit(case, claimed, runs=runs, seed=seed).run()
    method_class = method if isinstance(method, type) else type(method)
    all_cases = chain.from_iterable(families.audits().values())
    cases = [case for case in all_cases if type(case.algorithm) is method_class]
    name = method_class.__name__
    if not cases:
        raise UserError(
            f"There is no audit of {name}. Give `neighbours`, such as those of dpviz.extend.neighbours; without them, "
            "`dpviz.families.audits()` has the audits that there are."
        )
    claimed = cases[0].budgets[0] if budget is None else budget
    for_this_kind = [case for case in cases if any(type(claimed) is type(option) for option in case.budgets)]
    # The worst known case of a method comes first. If none is for this kind of budget, `Audit` raises the error.
    worst, *_ = for_this_kind or cases
    return Audit(worst, claimed, runs=runs, seed=seed).run()


@checked
def open(source: str | Path) -> Settings:
    """Return the settings that were saved on a page, or that its link opens.

    Parameters
    ----------
    source : str or Path
        A file of "Settings (JSON)", the text itself, or the address of an algorithm's page.

    Returns
    -------
    Experiment, Sweep or Auditing
        An address gives an Experiment.

    Raises
    ------
    UserError
        If it is none of these, a part of the address cannot be read, or it makes no experiment.

    Examples
    --------
    >>> import dpviz
    >>> settings = dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(iterations=5), epsilon=1).to_json()
    >>> dpviz.open(settings).budget
    PureDP(epsilon=1.0)
    """
    text = str(source).strip()
    if text.startswith(("http://", "https://")):
        require_package("streamlit")
        experiment: Experiment = import_module("dpviz.ui.addresses").experiment(text)
        return experiment
    if not text.startswith("{"):
        try:
            text = Path(source).read_text("utf-8-sig")
        except OSError as error:
            raise UserError(f"{source}: {error.strerror}.", title="These settings cannot be read") from None
        except ValueError:  # the file is no text, or its name has a null character
            raise UserError(f"{source!r} is no text in UTF-8.", title="These settings cannot be read") from None
    try:
        kind = json.loads(text).get("kind", "")
    except (ValueError, AttributeError, RecursionError):
        raise UserError("Give the settings that a page saves as JSON.", title="These are no settings") from None
    for cls in _KINDS:
        if cls.kind == kind:
            return cls.from_json(text)
    return Experiment.from_json(text)  # whose error says what is wrong
