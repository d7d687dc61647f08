"""From controls to an Experiment and back: problem, budget, methods and the settings that they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.specification import Control, Specification
from dpviz.ui.controls import Panel, Settings

CURRENCIES: dict[str, type[Budget]] = {
    "pure": PureDP,
    "approximate": ApproximateDP,
    "concentrated": ZeroConcentratedDP,
    "gaussian": GaussianDP,
}
BY_NAME = "method"
FRESH_SEED = "The seed of the noise is drawn afresh for every run and kept nowhere, so a run cannot be repeated."
SECRET_SEED = (
    "**Who knows the seed can subtract the noise.** A fixed one repeats a run and stands in the link and in the "
    "downloads: keep these as secret as the data."
)


@dataclass(frozen=True)
class Catalogue:
    """What a page offers to compare.

    methods : the algorithms by label. arms : `(labels, references=..., **settings)` to arms. default : labels.
    by_name : the settings that a label stands for; a control for them has the option "by method name".
    """

    methods: Mapping[str, AnyAlgorithm]
    arms: Callable[..., tuple[Arm, ...]]
    default: Sequence[str]
    by_name: Sequence[str] = ()

    def controls(self) -> dict[str, Control]:
        """The settings that the methods share, by name, as the first method declares them."""
        found: dict[str, Control] = {}
        for method in self.methods.values():
            for control in type(method).controls():
                found.setdefault(control.name, self._by_name(control) if control.name in self.by_name else control)
        return found

    def _by_name(self, control: Control) -> Control:
        options = {BY_NAME: "By method name", **(control.options or {})}
        return replace(control, options=options, default=BY_NAME)


@dataclass(frozen=True)
class Chosen:
    """Methods and their shared settings, as set on the page."""

    labels: tuple[str, ...]
    references: bool
    settings: Mapping[str, Any]

    def arms(self, catalogue: Catalogue) -> tuple[Arm, ...]:
        """The chosen methods as arms; raises UserError if none is chosen."""
        if not self.labels:
            raise UserError("Choose at least one under “Methods”.", title="No method is chosen")
        settings = {name: value for name, value in self.settings.items() if value != BY_NAME}
        return catalogue.arms(self.labels, references=self.references, **settings)


def methods(
    panel: Panel,
    catalogue: Catalogue,
    offered: Sequence[str] | None = None,
    default: Sequence[str] | None = None,
    name: str = "methods",
) -> tuple[str, ...]:
    """Choose the methods to compare, among those offered (None = all), under a control of the given name."""
    return tuple(
        panel.several(
            name,
            "Methods",
            list(catalogue.methods if offered is None else offered),
            catalogue.default if default is None else default,
            "Several at once: each gets the whole budget, the same data, and noise of its own.",
        )
    )


def references(panel: Panel, help: str = "Each update rule once more, without noise: no privacy.") -> bool:
    """Whether references without privacy run beside the private methods; `help` says what they are."""
    return panel.switch("references", "Add non-private references", False, help)


def settings(panel: Panel, catalogue: Catalogue, names: Sequence[str], methods: Sequence[str] = ()) -> dict[str, Any]:
    """Draw the shared settings `names`, as far as one of the methods (none = all of them) has them; their values."""
    declared = catalogue.controls()
    return {name: panel.control(declared[name], name) for name in applicable(catalogue, names, methods)}


def applicable(catalogue: Catalogue, names: Sequence[str], methods: Sequence[str] = ()) -> list[str]:
    """Those of the settings `names` that one of the methods (none = all of them) has."""
    owned = {name for label in methods or catalogue.methods for name in type(catalogue.methods[label]).model_fields}
    return [name for name in names if name in owned]


def budget(
    panel: Panel,
    default: str = "pure",
    epsilon: float | None = None,
    currencies: Mapping[str, type[Budget]] = CURRENCIES,
) -> Settings[Budget]:
    """Choose the currency and the size of the budget; `default` and `epsilon`: what it is at first on this page."""
    currency = panel.choice(
        "currency",
        "Guarantee",
        {name: cls.name for name, cls in currencies.items()},
        default,
        "Pure ε is the strictest kind. The others allow Gaussian noise and add up more slowly over many steps.",
    )
    cls = currencies[currency]
    controls = [
        replace(control, default=epsilon) if epsilon is not None and control.name == "epsilon" else control
        for control in cls.controls()
    ]
    values = {control.name: panel.control(control, control.name) for control in controls}
    st.caption(cls.direction)
    return Settings(cls, values)


def settings_of(experiment: Experiment, catalogue: Catalogue) -> dict[str, Any]:
    """The controls that rebuild an experiment's arms, budget, replicates and seed: the inverse of the functions above.

    Raises ValueError for arms that the catalogue cannot express.
    """
    private = [arm for arm in experiment.arms if not isinstance(arm.budget, NoPrivacy)]
    found: dict[str, Any] = {"methods": [arm.label for arm in private]}
    found["references"] = len(private) < len(experiment.arms)
    for name, control in catalogue.controls().items():
        found[name] = _common(name, control, private, catalogue)
    for currency, cls in CURRENCIES.items():
        if type(experiment.budget) is cls:
            found["currency"] = currency
            found |= {control.name: getattr(experiment.budget, control.name) for control in cls.controls()}
    found |= {"replicates": experiment.replicates, "seed": experiment.seed}
    chosen = Chosen(tuple(found["methods"]), found["references"], {name: found[name] for name in catalogue.controls()})
    if chosen.arms(catalogue) != experiment.arms:
        raise ValueError("the page's controls cannot express these arms")
    return found


def _common(name: str, control: Control, arms: Sequence[Arm], catalogue: Catalogue) -> Any:
    """The value that a shared setting has in all arms."""
    owners = [arm for arm in arms if name in type(arm.algorithm).model_fields]
    if not owners:
        return control.default
    if name in catalogue.by_name and all(
        getattr(arm.algorithm, name) == getattr(catalogue.methods[arm.label], name) for arm in owners
    ):
        return BY_NAME
    return getattr(owners[0].algorithm, name)


def replicates_and_seed(panel: Panel, public: bool) -> dict[str, Any]:
    """How many hypothetical runs, and the seed of their noise; on data that are not public, None unless asked for."""
    left, middle, right = st.columns([3, 1, 2], vertical_alignment="bottom", gap="medium")
    with left:
        values = panel.specification(Experiment, ["replicates"])
    if not public:
        with right:
            fixed = panel.switch("fixed_seed", "Fixed seed", False, SECRET_SEED)
        st.caption(SECRET_SEED if fixed else FRESH_SEED)
        if not fixed:
            return values | {"seed": None}
    control = next(control for control in Experiment.controls() if control.name == "seed")
    with middle:
        return values | {"seed": panel.control(replace(control, optional=False), "seed")}


def fields_of(specification: Specification, prefix: str = "") -> dict[str, Any]:
    """The controls of one specification: the inverse of `Panel.specification`."""
    return {prefix + control.name: getattr(specification, control.name) for control in specification.controls()}
