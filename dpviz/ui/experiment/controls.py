"""From controls to an Experiment and back: problem, budget, methods and the settings that they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import streamlit as st

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.specification import Control, Specification
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import texts

CURRENCIES: dict[str, type[Budget]] = {
    "pure": PureDP,
    "approximate": ApproximateDP,
    "concentrated": ZeroConcentratedDP,
    "gaussian": GaussianDP,
}
BY_NAME, BY_LABEL = "method", "by method name"
USUAL: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Catalogue:
    """The methods that a page offers for comparison.

    methods : the algorithms by label. arms : `(labels, references=..., **settings)` to arms. default : labels.
    by_name : the settings that a label stands for; a control for them has the option "by method name", or is empty.
    words : what a label means, spelled out.
    """

    methods: Mapping[str, AnyAlgorithm]
    arms: Callable[..., tuple[Arm, ...]]
    default: Sequence[str]
    by_name: Sequence[str] = ()
    words: Mapping[str, str] = field(default_factory=dict)

    def controls(self) -> dict[str, Control]:
        """Return the settings that the methods share, by name, as the first method declares them."""
        controls: dict[str, Control] = {}
        for method in self.methods.values():
            for control in type(method).controls():
                controls.setdefault(control.name, self._by_name(control) if control.name in self.by_name else control)
        return controls

    def nested(self) -> dict[str, type[Specification]]:
        """Return the classes of the settings that have settings of their own, by name."""
        return {
            name: type(field.default)
            for method in self.methods.values()
            for name, field in type(method).model_fields.items()
            if isinstance(field.default, Specification)
        }

    def _by_name(self, control: Control) -> Control:
        if not control.options:
            return replace(control, optional=True, default=None)
        return replace(control, options={BY_NAME: "By method name", **control.options}, default=BY_NAME)

    def left_to_names(self, settings: Mapping[str, Any]) -> set[str]:
        """Return the names of those settings whose value each method's label determines."""
        return {name for name in self.by_name if settings.get(name) in (BY_NAME, None)}


@dataclass(frozen=True)
class Offer:
    """The methods for a kind of problem.

    methods : their labels; if empty, all. default : those chosen at first; if empty, the catalogue's.
    name : of the control, one for every group of problems with the same methods.
    """

    methods: Sequence[str] = ()
    default: Sequence[str] = ()
    name: str = "methods"


EVERY = Offer()


@dataclass(frozen=True)
class Group:
    """Settings of the methods that are drawn together.

    title : of the expander that holds them; empty for none. names : of the settings, in their order; that of a nested
    one includes all that it holds.
    only : settings that are drawn while another one of the group has a value: {name: (other, value)}. leads : those
    drawn above the picture, as far as the methods have them and there is room. without : a sentence that explains why
    steps or batches are not among them.
    """

    title: str
    names: Sequence[str]
    only: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    leads: Sequence[str] = ()
    without: str = ""


def groups_of(package: str) -> tuple[Group, ...]:
    """Return the groups of a family's page, from `groups.toml` in its package."""
    return tuple(Group(**group) for group in resources.data(package, "groups.toml")["group"])


@dataclass(frozen=True)
class Chosen:
    """Methods and their shared settings, as set on the page."""

    labels: tuple[str, ...]
    references: bool
    settings: Mapping[str, Any]

    def arms(self, catalogue: Catalogue) -> tuple[Arm, ...]:
        """Return the chosen methods as arms.

        Raises UserError if none is chosen, or for settings that do not go together.
        """
        if not self.labels:
            raise UserError("Choose at least one under “Methods”.", title="No method is chosen")
        built = {name: value.build() if isinstance(value, Settings) else value for name, value in self.settings.items()}
        by_name = catalogue.left_to_names(built)
        settings = {name: value for name, value in built.items() if name not in by_name}
        return catalogue.arms(self.labels, references=self.references, **settings)


def methods(panel: Panel, catalogue: Catalogue, offer: Offer = EVERY) -> tuple[str, ...]:
    """Draw the choice of the methods to compare, with their full names below; return their labels."""
    labels = tuple(
        panel.several(
            offer.name,
            "Methods",
            list(offer.methods or catalogue.methods),
            offer.default or catalogue.default,
            "Several at once: each gets the whole budget, the same data, and noise of its own.",
        )
    )
    full_names = "; ".join(f"**{label}**: {catalogue.words[label]}" for label in labels if label in catalogue.words)
    if full_names:
        st.caption(f"{full_names}.")
    return labels


def references(panel: Panel, help: str) -> bool:
    """Draw the switch for references without privacy; return its value. help : what the references are."""
    return panel.switch("references", "Add non-private references", True, help)


def settings(panel: Panel, catalogue: Catalogue, names: Sequence[str], methods: Sequence[str] = ()) -> dict[str, Any]:
    """Draw the shared settings `names` that one of `methods` (if empty, of all) has; return their values."""
    controls, nested = catalogue.controls(), catalogue.nested()
    return {
        name: _draw_nested(panel, nested[name], name)
        if name in nested
        else _draw_setting(panel, controls[name], name in catalogue.by_name)
        for name in applicable(catalogue, names, methods)
    }


def _draw_setting(panel: Panel, control: Control, by_name: bool) -> Any:
    """Draw one setting; a number that a method's label determines says so while it is empty."""
    if by_name and not control.options:
        return panel.number(control, control.name, empty=BY_LABEL)
    return panel.control(control, control.name)


def _draw_nested(panel: Panel, cls: type[Specification], name: str) -> Settings[Specification]:
    """Draw all settings of a nested setting, and below an error if their values do not go together."""
    mistake_count = len(panel.mistakes)
    controls = [control.name for control in cls.controls()]
    nested = Settings(cls, panel.specification(cls, controls, prefix=f"{name}_"))
    if len(panel.mistakes) == mistake_count:  # else the number that is out of range has a message of its own
        with in_place():
            nested.build()
    return nested


def grouped(
    panel: Panel,
    catalogue: Catalogue,
    groups: Sequence[Group],
    methods: Sequence[str],
    applicable_names: Callable[[Sequence[str]], Sequence[str]],
    leads: Sequence[int],
) -> dict[str, Any]:
    """Draw the settings group by group, as far as one of the methods has them; return their values.

    leads : columns above the picture for the leading settings; these are drawn later, into the returned values.
    """
    values: dict[str, Any] = {}
    controls = catalogue.controls()
    for group in groups:
        names = applicable(catalogue, applicable_names([n for n in group.names if n not in group.only]), methods)
        leading = dict(zip((name for name in group.leads if name in names), leads, strict=False))
        for name, column in leading.items():
            owners = [label for label in methods if name in type(catalogue.methods[label]).model_fields]
            whose = f" Of {', '.join(owners)}." * (len(owners) < len(methods))
            control = replace(controls[name], help=f"{controls[name].help.strip()}{whose}")
            panel.lead(column, control, values, empty=BY_LABEL if name in catalogue.by_name else "by theory")
        names = [name for name in names if name not in leading]
        if names:
            with st.expander(group.title) if group.title else st.container():
                values |= settings(panel, catalogue, names, methods)
                also = [name for name, (other, value) in group.only.items() if values.get(other) == value]
                values |= settings(panel, catalogue, [name for name in also if not controls[name].count], methods)
                for name in also:
                    if controls[name].count:
                        panel.lead(len(panel.leads), controls[name], values)
    return values


def applicable(catalogue: Catalogue, names: Sequence[str], methods: Sequence[str] = ()) -> list[str]:
    """Return those of the settings `names` that one of `methods` (if empty, of all) has."""
    owned = {name for label in methods or catalogue.methods for name in type(catalogue.methods[label]).model_fields}
    return [name for name in names if name in owned]


def budget(
    panel: Panel,
    default: str = "pure",
    at_first: Mapping[str, float] = USUAL,
    currencies: Mapping[str, type[Budget]] = CURRENCIES,
    leads: bool = False,
) -> Settings[Budget]:
    """Draw the choice of currency and size of the budget; return them. default : the currency at first on this page.

    at_first : "epsilon", "delta" at first, where these are not the budget's own defaults. leads : true to draw the
    budget's size above the picture, first.
    """
    currency = panel.choice(
        "currency",
        "Guarantee",
        {name: cls.name for name, cls in currencies.items()},
        default,
        "Pure ε is the strictest kind. The others allow Gaussian noise and add up more slowly over many steps.",
    )
    cls = currencies[currency]
    controls = [replace(control, default=at_first.get(control.name, control.default)) for control in cls.controls()]
    values: dict[str, Any] = {}
    for position, control in enumerate(controls):
        if leads and position == 0:
            panel.lead(0, control, values)
        else:
            values[control.name] = panel.control(control, control.name)
    st.caption(cls.direction)
    return Settings(cls, values)


def settings_of(experiment: Experiment, catalogue: Catalogue, name: str = "methods") -> dict[str, Any]:
    """Return the controls that rebuild an experiment's arms, budget, replicates and seed: the inverse of the functions
    above.

    name : of the control of the methods. Raises ValueError for arms that the catalogue cannot express.
    """
    private = [arm for arm in experiment.arms if not arm.reference]
    labels = [arm.label for arm in private]
    if not catalogue.methods.keys() >= set(labels):
        raise ValueError(texts.UNEXPRESSED)
    values: dict[str, Any] = {name: labels}
    values["references"] = len(private) < len(experiment.arms)
    defaults: dict[str, Any] = {shared: control.default for shared, control in catalogue.controls().items()}
    defaults |= {shared: cls() for shared, cls in catalogue.nested().items()}
    shared = {shared: _common(shared, default, private, catalogue) for shared, default in defaults.items()}
    for setting, value in shared.items():
        values |= fields_of(value, f"{setting}_") if isinstance(value, Specification) else {setting: value}
    for currency, cls in CURRENCIES.items():
        if type(experiment.budget) is cls:
            values["currency"] = currency
            values |= {control.name: getattr(experiment.budget, control.name) for control in cls.controls()}
    values |= {_repeats_name(experiment.public): experiment.replicates, "seed": experiment.seed}
    rebuilt = Chosen(tuple(labels), values["references"], shared)
    if rebuilt.arms(catalogue) != experiment.arms:
        raise ValueError(texts.UNEXPRESSED)
    return values


def _common(name: str, default: Any, arms: Sequence[Arm], catalogue: Catalogue) -> Any:
    """Return the value of a shared setting in the arms; the default where none has it, or where labels determine it."""
    owners = [arm for arm in arms if name in type(arm.algorithm).model_fields]
    if not owners:
        return default
    if name in catalogue.by_name and all(
        getattr(arm.algorithm, name) == getattr(catalogue.methods[arm.label], name) for arm in owners
    ):
        return default
    return getattr(owners[0].algorithm, name)


def replicates_and_seed(panel: Panel, public: bool, at_first: Mapping[str, float] = USUAL) -> dict[str, Any]:
    """Draw the number of runs, hypothetical ones on public data, and the seed of their noise; return both.

    On data that are not public every run is a release: at first there is one, independently of the setting for public
    data, and no seed unless the visitor switches it on.

    at_first : as in `budget`.
    """
    declared = {control.name: control for control in Experiment.controls()}
    repeats = declared["replicates"]
    usual = replace(repeats, default=at_first.get(repeats.name, repeats.default) if public else 1)
    values: dict[str, Any] = {repeats.name: panel.control(usual, _repeats_name(public))}
    if not public:
        fixed = panel.switch("fixed_seed", "Fixed seed", False, texts.SECRET_SEED)
        st.caption(texts.SECRET_SEED if fixed else texts.FRESH_SEED)
        if not fixed:
            return values | {"seed": None}
    return values | {"seed": panel.control(replace(declared["seed"], optional=False), "seed")}


def _repeats_name(public: bool) -> str:
    """Return the name of the control of the repeats: a separate one for data that are not public."""
    return "replicates" if public else "file_replicates"


def fields_of(specification: Specification, prefix: str = "") -> dict[str, Any]:
    """Return the controls of one specification: the inverse of `Panel.specification`."""
    return {prefix + control.name: getattr(specification, control.name) for control in specification.controls()}
