"""The controls for methods, their shared settings, budget, repeats and seed, and the inverse: from an Experiment to the
values of these controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.specification import Control, Specification
from dpviz.ui.controls import Panel, Settings, draw_errors
from dpviz.ui.experiment import texts

CURRENCIES: dict[str, type[Budget]] = {
    "pure": PureDP,
    "approximate": ApproximateDP,
    "concentrated": ZeroConcentratedDP,
    "gaussian": GaussianDP,
}
# With the option BY_NAME, or in an empty number, whose text is BY_LABEL, each method's label determines the value.
BY_NAME, BY_LABEL = "method", "by method name"
AS_DECLARED: Mapping[str, float] = MappingProxyType({})  # no first values but those that the classes declare


@dataclass(frozen=True)
class Catalogue:
    """The methods that a page offers for comparison.

    methods : the algorithms by label. arms : the function `(labels, references=..., **settings)` that returns arms.
    default : the labels chosen at first. full_names : by label, of the methods whose label is an abbreviation.
    by_name : the names of settings whose value a label can determine, as when two labels are the same algorithm with
    two values of a setting. Their controls have the option "By method name", or, for a number, may be empty.
    """

    methods: Mapping[str, AnyAlgorithm]
    arms: Callable[..., tuple[Arm, ...]]
    default: Sequence[str]
    by_name: Sequence[str] = ()
    full_names: Mapping[str, str] = field(default_factory=dict)

    def controls(self) -> dict[str, Control]:
        """Return the controls of all settings of the methods, by name, each as its first method declares it."""
        controls: dict[str, Control] = {}
        for method in self.methods.values():
            for control in type(method).controls():
                controls.setdefault(control.name, control)
        for name in self.by_name:  # at first, the label of each method determines the value
            control = controls[name]
            if control.options:
                options = {BY_NAME: "By method name", **control.options}
                controls[name] = replace(control, options=options, default=BY_NAME)
            else:
                controls[name] = replace(control, optional=True, default=None)
        return controls

    def nested(self) -> dict[str, type[Specification]]:
        """Return the classes of those settings of the methods whose value is itself a specification, by name."""
        return {
            name: type(declared.default)
            for method in self.methods.values()
            for name, declared in type(method).model_fields.items()
            if isinstance(declared.default, Specification)
        }

    def left_to_names(self, settings: Mapping[str, Any]) -> set[str]:
        """Return the names of those `settings` (values by name) whose value is left to each method's label."""
        return {name for name in self.by_name if settings.get(name) in (BY_NAME, None)}  # None: an empty number


@dataclass(frozen=True)
class Offer:
    """The methods of the catalogue that a page offers for one kind of problem.

    methods : their labels; if empty, all. default : those chosen at first; if empty, the catalogue's.
    name : name of the control that chooses among them. Kinds of problem with other methods have a control of another
    name, so that each remembers its own choice.
    """

    methods: Sequence[str] = ()
    default: Sequence[str] = ()
    name: str = "methods"


ALL_METHODS = Offer()


@dataclass(frozen=True)
class Group:
    """Settings of the methods that are drawn together.

    title : title of the expander that holds them; empty to draw them without one. names : names of the settings, in
    the order of their controls; the name of a nested setting includes all settings in it.
    only : {name: (other, value)}, settings that are drawn only while the setting `other` of the group has this value.
    leads : names of settings that are drawn above the picture, as far as the methods have them and there is room.
    why_missing : a sentence that explains why steps or batches are not among the leading settings.
    """

    title: str
    names: Sequence[str]
    only: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    leads: Sequence[str] = ()
    why_missing: str = ""


@dataclass(frozen=True)
class ChosenMethods:
    """Methods and their shared settings, as set on the page.

    references : true to add each update rule without noise. settings : values by name; in place of a specification,
    the `Settings` from which it is built.
    """

    labels: tuple[str, ...]
    references: bool
    settings: Mapping[str, Any]

    def arms(self, catalogue: Catalogue) -> tuple[Arm, ...]:
        """Return the chosen methods as arms, each with the shared settings except those that are left to its label.

        Raises UserError if no method is chosen, or for settings that do not go together.
        """
        if not self.labels:
            raise UserError("Choose at least one under “Methods”.", title="No method is chosen")
        built = {name: value.build() if isinstance(value, Settings) else value for name, value in self.settings.items()}
        left_to_names = catalogue.left_to_names(built)
        settings = {name: value for name, value in built.items() if name not in left_to_names}
        return catalogue.arms(self.labels, references=self.references, **settings)


def methods(panel: Panel, catalogue: Catalogue, offer: Offer = ALL_METHODS) -> tuple[str, ...]:
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
    abbreviations = [label for label in labels if label in catalogue.full_names]
    if abbreviations:
        st.caption("; ".join(f"**{label}**: {catalogue.full_names[label]}" for label in abbreviations) + ".")
    return labels


def settings(panel: Panel, catalogue: Catalogue, names: Sequence[str]) -> dict[str, Any]:
    """Draw the settings `names`; return their values by name."""
    controls, nested = catalogue.controls(), catalogue.nested()
    values: dict[str, Any] = {}
    for name in names:
        if name in nested:
            values[name] = _draw_nested(panel, nested[name], name)
        elif name in catalogue.by_name and not controls[name].options:  # an empty number is left to the labels
            values[name] = panel.number(controls[name], name, empty=BY_LABEL)
        else:
            values[name] = panel.control(controls[name], name)
    return values


def _draw_nested(panel: Panel, cls: type[Specification], name: str) -> Settings[Specification]:
    """Draw the controls of a setting whose value is a specification `cls`; below them, its error if it has one."""
    mistake_count = len(panel.mistakes)
    controls = [control.name for control in cls.controls()]
    nested = Settings(cls, panel.draw_controls(cls, controls, prefix=f"{name}_"))
    if len(panel.mistakes) == mistake_count:  # else the number that is out of range has a message of its own
        with draw_errors():
            nested.build()
    return nested


def choose_settings(
    panel: Panel,
    catalogue: Catalogue,
    groups: Sequence[Group],
    methods: Sequence[str],
    applicable_names: Callable[[Sequence[str]], Sequence[str]],
    free_columns: Sequence[int],
) -> dict[str, Any]:
    """Draw the settings group by group, as far as one of `methods` has them; return their values by name.

    applicable_names : returns those of some names that mean something for the page's problem and budget.
    free_columns : numbers of the columns above the picture that are free for the leading settings; a page has one group
    with any. They are drawn after this function has returned, and then write into the returned dictionary.
    """
    values: dict[str, Any] = {}
    controls = catalogue.controls()
    for group in groups:
        unconditional = [name for name in group.names if name not in group.only]
        names = settings_of_methods(catalogue, applicable_names(unconditional), methods)
        leading_names = [name for name in group.leads if name in names]
        # Those without a column are drawn in the group.
        column_by_name = dict(zip(leading_names, free_columns, strict=False))
        for name, column in column_by_name.items():
            owners = [label for label in methods if name in type(catalogue.methods[label]).model_fields]
            help = controls[name].help.strip()
            if len(owners) < len(methods):
                help += f" Of {', '.join(owners)}."
            control = replace(controls[name], help=help)
            empty = BY_LABEL if name in catalogue.by_name else "by theory"  # says what determines a number left empty
            panel.add_lead(column, control, values, empty=empty)
        names_in_group = [name for name in names if name not in column_by_name]
        if names_in_group:
            with st.expander(group.title) if group.title else st.container():
                values |= settings(panel, catalogue, names_in_group)
                # Settings that another one's value, drawn just now, calls for; they mean something wherever that does.
                conditional = [name for name, (other, value) in group.only.items() if values.get(other) == value]
                single_values = [name for name in conditional if not controls[name].count]
                values |= settings(panel, catalogue, settings_of_methods(catalogue, single_values, methods))
                for name in conditional:
                    if controls[name].count:  # several numbers, such as a schedule drawn by hand, are set in a chart
                        panel.add_lead(len(panel.leads), controls[name], values)  # behind all others
    return values


def settings_of_methods(catalogue: Catalogue, names: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Return those of the settings `names` that one of `methods` (if empty, of all) has."""
    fields = {name for label in methods or catalogue.methods for name in type(catalogue.methods[label]).model_fields}
    return [name for name in names if name in fields]


def budget(
    panel: Panel,
    default: str = "pure",
    at_first: Mapping[str, float] = AS_DECLARED,
    currencies: Mapping[str, type[Budget]] = CURRENCIES,
) -> Settings[Budget]:
    """Draw the choice of a privacy budget, its currency and its size; return its class with the values.

    Its size is drawn in the first column above the picture, after which its value arrives in the returned settings.

    default : name of the currency that is chosen at first, a key of `currencies`. at_first : first values of "epsilon"
    or "delta", where they differ from the defaults of the budget's class.
    """
    currency = panel.choice(
        "currency",
        "Guarantee",
        {name: cls.name for name, cls in currencies.items()},
        default,
        "Pure ε is the strictest kind. The others allow Gaussian noise and add up more slowly over many steps.",
    )
    cls = currencies[currency]
    # A budget's class declares its size first.
    size, *others = (
        replace(control, default=at_first.get(control.name, control.default)) for control in cls.controls()
    )
    values: dict[str, Any] = {}
    panel.add_lead(0, size, values)
    for control in others:
        values[control.name] = panel.control(control, control.name)
    st.caption(cls.direction)
    return Settings(cls, values)


def settings_of(experiment: Experiment, catalogue: Catalogue, methods_control: str = "methods") -> dict[str, Any]:
    """Return the values of the controls, by name, that rebuild an experiment's arms, budget, repeats and seed.

    This is the inverse of `methods`, `settings`, `budget` and `replicates_and_seed`.

    methods_control : name of the control of the methods. Raises ValueError for arms that these controls cannot express.
    """
    private = [arm for arm in experiment.arms if not arm.reference]
    labels = [arm.label for arm in private]
    if not catalogue.methods.keys() >= set(labels):
        raise ValueError(texts.UNEXPRESSED)
    values: dict[str, Any] = {methods_control: labels}
    values["references"] = len(private) < len(experiment.arms)
    defaults: dict[str, Any] = {setting: control.default for setting, control in catalogue.controls().items()}
    defaults |= {setting: cls() for setting, cls in catalogue.nested().items()}
    shared_settings = {setting: _common(setting, default, private, catalogue) for setting, default in defaults.items()}
    for setting, value in shared_settings.items():
        if isinstance(value, Specification):
            values |= fields_of(value, f"{setting}_")
        else:
            values[setting] = value
    for currency, cls in CURRENCIES.items():
        if type(experiment.budget) is cls:
            values["currency"] = currency
            values |= {control.name: getattr(experiment.budget, control.name) for control in cls.controls()}
    values |= {_repeats_name(experiment.public): experiment.replicates, "seed": experiment.seed}
    # An arm may differ from the others in a setting that all share; then no values of the controls lead to it.
    rebuilt = ChosenMethods(tuple(labels), values["references"], shared_settings)
    if rebuilt.arms(catalogue) != experiment.arms:
        raise ValueError(texts.UNEXPRESSED)
    return values


def _common(name: str, default: Any, arms: Sequence[Arm], catalogue: Catalogue) -> Any:
    """Return the value of the shared setting `name` in the first arm that has it.

    Return `default` if no arm has it, or if every arm has the value that its label determines: for such a setting, the
    default leaves the value to the labels.
    """
    owners = [arm for arm in arms if name in type(arm.algorithm).model_fields]
    if not owners:
        return default
    if name in catalogue.by_name:
        value_by_label = {arm.label: getattr(catalogue.methods[arm.label], name) for arm in owners}
        if all(getattr(arm.algorithm, name) == value_by_label[arm.label] for arm in owners):
            return default
    return getattr(owners[0].algorithm, name)


def replicates_and_seed(panel: Panel, public: bool, at_first: Mapping[str, float] = AS_DECLARED) -> dict[str, Any]:
    """Draw the number of repeats and the seed of their noise; return both by the names of the experiment's fields.

    public : whether the data are public, so that no repeat is a release. On other data every repeat is one: at first
    there is a single one, with a control of its own, and the seed is None unless the visitor switches it on.
    at_first : the first number of "replicates" on public data, where it is not the experiment's default.
    """
    declared = {control.name: control for control in Experiment.controls()}
    repeats = declared["replicates"]
    default = at_first.get(repeats.name, repeats.default) if public else 1
    control = replace(repeats, default=default)
    values: dict[str, Any] = {repeats.name: panel.control(control, _repeats_name(public))}
    if not public:
        fixed = panel.switch("fixed_seed", "Fixed seed", default=False, help=texts.SECRET_SEED)
        st.caption(texts.SECRET_SEED if fixed else texts.FRESH_SEED)
        if not fixed:
            return values | {"seed": None}
    required = replace(declared["seed"], optional=False)  # only the switch above makes it None
    return values | {"seed": panel.control(required, "seed")}


def _repeats_name(public: bool) -> str:
    """Return the name of the control of the repeats: data that are not public have one of their own."""
    return "replicates" if public else "file_replicates"


def fields_of(specification: Specification, prefix: str = "") -> dict[str, Any]:
    """Return the values of a specification's controls, by prefix and name: the inverse of `Panel.specification`."""
    return {prefix + control.name: getattr(specification, control.name) for control in specification.controls()}
