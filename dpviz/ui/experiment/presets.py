"""The menu of presets: it shows the preset that the settings equal, and writes all settings of another one."""

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
    """Apply the preset that the address names, and replace its name in the address by its settings."""
    slug = st.query_params.get(links.PRESET)
    if slug is None:
        return
    del st.query_params[links.PRESET]
    preset = next((preset for preset in presets if preset.slug == slug), None)
    if preset is None:
        st.toast(texts.UNKNOWN_PRESET, icon=":material/link_off:", duration="long")
    else:
        _open(panel, preset)


def restoring(panel: Panel, presets: Sequence[Preset], settings_of: SettingsOf) -> links.Named | None:
    """Return the preset that the settings equal, by its name in links, with the keys that it sets; None if none is."""
    name = st.session_state.get(panel.key("preset"))
    preset = next((preset for preset in presets if preset.name == name), None)
    if preset is None:
        return None
    return links.Named(preset.slug, frozenset(map(panel.key, settings_of(preset))))


def apply_pending(panel: Panel, settings_of: Callable[[Experiment], Mapping[str, Any]]) -> None:
    """Write the settings of the pending experiment, from this or another page; before any control is drawn."""
    experiment = st.session_state.get(panel.key("pending"))
    if experiment is not None:
        panel.write(settings_of(experiment))


def applied(panel: Panel) -> None:
    """Forget the pending experiment; after all controls have been drawn.

    A script run that is interrupted before that has sent the browser no values, and the browser's own would win.
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
    """Draw the menu, when the experiment is known; return the preset that was picked last, if any.

    The menu follows the settings: after a change it shows "Your own settings", and the preset can be picked again.
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
        # As with sliders: the value set above is sent once, and may be lost. The first index is sent every time.
        index=names.index(st.session_state.setdefault(f"{key}_born", matching)),
        key=key,
        on_change=_pick,
        args=(panel, presets),
        label_visibility="collapsed",
    )
    return _last(panel, presets)


def _last(panel: Panel, presets: Sequence[Preset]) -> Preset | None:
    """Return the preset that was picked last, None if there is none."""
    last = st.session_state.get(panel.key("last_preset"))
    return next((preset for preset in presets if preset.name == last), None)


def text(panel: Panel, preset: Preset | None, experiment: Experiment | None, settings_of: SettingsOf) -> None:
    """Draw what to look for in the preset, which is true at its own settings; at others, the changes since.

    Draws nothing for another kind of problem or data.
    """
    if preset is None or experiment is None or _about(preset.experiment) != _about(experiment):
        return
    is_unchanged = preset.experiment == experiment
    st.caption(preset.look_for if is_unchanged else f"**{preset.name}.** {_changed(panel, settings_of(preset))}")


def story(panel: Panel, presets: Sequence[Preset]) -> None:
    """Draw published results for the preset that was picked last, with their source."""
    if (preset := _last(panel, presets)) is not None:
        st.caption(f"**{preset.name}.** {preset.reported} *Source: {preset.source}.*")


def _about(experiment: Experiment) -> tuple[str, str]:
    """Return the kinds of problem and of data of an experiment."""
    data = experiment.problem.dataset
    return experiment.problem.kind, "" if data is None else data.kind


def _changed(panel: Panel, preset_values: Mapping[str, Any]) -> str:
    """Say which of the controls have other values than the preset's; "" if none has."""
    titles = [
        title
        for name, title in panel.titles.items()
        if name in preset_values and st.session_state.get(panel.key(name)) != preset_values[name]
    ]
    return f"These settings have been changed: {', '.join(titles)}." if titles else ""


def _pick(panel: Panel, presets: Sequence[Preset]) -> None:
    key = panel.key("preset")
    if not streamlit_patches.alone(key):
        return  # a quick second change: what the menu showed before the first one is no choice
    picked = st.session_state[key]
    for preset in presets:
        if preset.name == picked:
            _open(panel, preset)
