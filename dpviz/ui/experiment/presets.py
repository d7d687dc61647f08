"""The menu of presets: shows which one the settings are, and writes all settings when another is picked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.ui import links, streamlit_patches
from dpviz.ui.controls import WHOLE, Panel
from dpviz.ui.experiment import sections, texts

SettingsOf = Callable[[Preset], Mapping[str, Any]]


def arrive(panel: Panel, presets: Sequence[Preset]) -> None:
    """Take over the preset that the address names, and leave its settings there in place of its name."""
    asked = st.query_params.get(links.PRESET)
    if asked is None:
        return
    del st.query_params[links.PRESET]
    preset = next((preset for preset in presets if preset.slug == asked), None)
    if preset is None:
        st.toast(texts.UNKNOWN_PRESET, icon=":material/link_off:", duration="long")
    else:
        _open(panel, preset)


def restoring(panel: Panel, presets: Sequence[Preset], settings_of: SettingsOf) -> links.Named | None:
    """The preset that the settings are, as a link names it, with all that it sets; None if they are none."""
    name = st.session_state.get(panel.key("preset"))
    preset = next((preset for preset in presets if preset.name == name), None)
    if preset is None:
        return None
    return links.Named(preset.slug, frozenset(map(panel.key, settings_of(preset))))


def apply_pending(panel: Panel, settings_of: Callable[[Experiment], Mapping[str, Any]]) -> None:
    """Write the settings that were asked for, here or on another page; before any control is drawn."""
    experiment = st.session_state.get(panel.key("pending"))
    if experiment is not None:
        panel.write(settings_of(experiment))


def applied(panel: Panel) -> None:
    """Forget what was asked for; after all controls have been drawn.

    A run of the page that is interrupted before that has sent the browser no values, and the browser's own would win.
    """
    st.session_state.pop(panel.key("pending"), None)


def open_with(page: str, experiment: Experiment) -> None:
    """Ask the page with this prefix to begin with the settings of an experiment."""
    st.session_state[f"{page}_pending"], st.session_state[WHOLE] = experiment, True


def _open(panel: Panel, preset: Preset) -> None:
    open_with(panel.page, preset.experiment)
    if preset.tab:
        st.session_state[panel.key("section")], st.session_state[panel.key("tabs")] = sections.PLAN, preset.tab


def menu(panel: Panel, presets: Sequence[Preset], experiment: Experiment | None) -> Preset | None:
    """The menu, drawn when the experiment is known; the preset that was picked last, if any.

    It follows the settings: whoever changes them sees "Your own settings" and can pick the preset again.
    """
    key = panel.key("preset")
    matching = next((preset.name for preset in presets if preset.experiment == experiment), texts.OWN_SETTINGS)
    if st.session_state.get(key) != matching:
        st.session_state[key] = matching
    if matching != texts.OWN_SETTINGS:
        st.session_state[panel.key("last_preset")] = matching
    names = [*(preset.name for preset in presets), texts.OWN_SETTINGS]
    st.selectbox(
        "Preset",
        names,
        # As with sliders: what is set above is sent once, and may be lost. What it was born with is sent every time.
        index=names.index(st.session_state.setdefault(f"{key}_born", matching)),
        key=key,
        on_change=_pick,
        args=(panel, presets),
        label_visibility="collapsed",
    )
    return _last(panel, presets)


def _last(panel: Panel, presets: Sequence[Preset]) -> Preset | None:
    """The preset that was picked last."""
    last = st.session_state.get(panel.key("last_preset"))
    return next((preset for preset in presets if preset.name == last), None)


def text(panel: Panel, preset: Preset | None, experiment: Experiment | None, settings_of: SettingsOf) -> None:
    """What to look for in the preset, which is true at its own settings; at others, what has been changed since.
    Nothing over other data."""
    if preset is None or experiment is None or _about(preset.experiment) != _about(experiment):
        return
    its_own = preset.experiment == experiment
    st.caption(preset.look_for if its_own else f"**{preset.name}.** {_changed(panel, settings_of(preset))}")


def story(panel: Panel, presets: Sequence[Preset]) -> None:
    """What was published on the preset that was picked last."""
    if (preset := _last(panel, presets)) is not None:
        st.caption(f"**{preset.name}.** {preset.reported} *Source: {preset.source}.*")


def _about(experiment: Experiment) -> tuple[str, str]:
    """The kinds of problem and of data that an experiment is about."""
    data = experiment.problem.dataset
    return experiment.problem.kind, "" if data is None else data.kind


def _changed(panel: Panel, before: Mapping[str, Any]) -> str:
    """Which of the controls have other values than the preset's, in a sentence."""
    named = [
        title
        for name, title in panel.titles.items()
        if name in before and st.session_state.get(panel.key(name)) != before[name]
    ]
    return f"These settings have been changed: {', '.join(named)}." if named else ""


def _pick(panel: Panel, presets: Sequence[Preset]) -> None:
    key = panel.key("preset")
    if not streamlit_patches.alone(key):
        return  # a quick second change: what the menu showed before the first one is no choice
    picked = st.session_state[key]
    for preset in presets:
        if preset.name == picked:
            _open(panel, preset)
