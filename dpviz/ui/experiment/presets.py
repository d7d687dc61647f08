"""The menu of presets, that is, of named experiments.

It shows the preset whose settings the page has now. To pick another one writes all settings of the page: as Streamlit
allows that only before their controls are drawn, the experiment is noted as pending, and written at the next draw.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.ui import links, streamlit_patches
from dpviz.ui.controls import UNREAD, WHOLE, Panel
from dpviz.ui.experiment import sections, texts

SettingsOf = Callable[[Preset], Mapping[str, Any]]  # from a preset to the values of the page's controls, by name


def read_address(panel: Panel, presets: Sequence[Preset]) -> None:
    """Make the preset that the address names pending, and remove its name: the page then writes its settings there."""
    slug = st.query_params.get(links.PRESET)
    if slug is None:
        return
    del st.query_params[links.PRESET]
    preset = next((preset for preset in presets if preset.slug == slug), None)
    if preset is None:
        st.toast(texts.UNKNOWN_PRESET, icon=UNREAD, duration="long")
    else:
        _open(panel, preset)


def preset_link(panel: Panel, presets: Sequence[Preset], settings_of: SettingsOf) -> links.PresetLink | None:
    """Return the name in links of the preset that the menu shows, with the keys of the controls that it sets.

    Return None if the menu shows none, as the visitor's settings are those of no preset.
    """
    preset = _stored(panel, presets, "preset")
    if preset is None:
        return None
    return links.PresetLink(preset.slug, frozenset(map(panel.key, settings_of(preset))))


def apply_pending(panel: Panel, settings_of: Callable[[Experiment], Mapping[str, Any]]) -> None:
    """Write the settings of the pending experiment, if there is one, into the page's controls; call it before these.

    settings_of : returns the values of the page's controls, by name.
    """
    experiment = st.session_state.get(panel.key("pending"))
    if experiment is not None:
        panel.set_values(settings_of(experiment))


def clear_pending(panel: Panel) -> None:
    """Forget the pending experiment; call it after all controls have been drawn.

    If it were forgotten earlier and the script interrupted, the browser would never get the new values, and would send
    back its old ones.
    """
    st.session_state.pop(panel.key("pending"), None)


def set_pending(page: str, experiment: Experiment) -> None:
    """Make an experiment pending on the page with the prefix `page`, which then begins with its settings."""
    st.session_state[f"{page}_pending"] = experiment
    st.session_state[WHOLE] = True  # the controls of the whole page are set, not only of a part of it


def _open(panel: Panel, preset: Preset) -> None:
    """Make a preset pending, with the tab of the plan that it is about, if any."""
    set_pending(panel.page, preset.experiment)
    if preset.tab:
        st.session_state[panel.key("section")] = sections.PLAN
        st.session_state[panel.key("tabs")] = preset.tab


def menu(panel: Panel, presets: Sequence[Preset], experiment: Experiment | None) -> Preset | None:
    """Draw the menu; return the last preset whose settings the page had, None if there was none.

    The menu shows the preset that equals the experiment of the present settings, and "Your own settings" if none does.
    So after a change of a setting the preset can be picked again.
    """
    key = panel.key("preset")
    matching = next((preset.name for preset in presets if preset.experiment == experiment), texts.OWN_SETTINGS)
    if st.session_state.get(key) != matching:
        st.session_state[key] = matching
    if matching != texts.OWN_SETTINGS:
        st.session_state[panel.key("last_preset")] = matching
    names = [*(preset.name for preset in presets), texts.OWN_SETTINGS]
    # Streamlit sends the value that is set above only once, and it may be lost. It sends `index` every time, but this
    # must stay as it was when the menu was first drawn ("born").
    first_name = st.session_state.setdefault(f"{key}_born", matching)
    st.selectbox(
        "Preset",
        names,
        index=names.index(first_name),
        key=key,
        on_change=_pick,
        args=(panel, presets),
        label_visibility="collapsed",
    )
    return _stored(panel, presets, "last_preset")


def _stored(panel: Panel, presets: Sequence[Preset], key: str) -> Preset | None:
    """Return the preset whose name the session holds under `key`, None without one."""
    name = st.session_state.get(panel.key(key))
    return next((preset for preset in presets if preset.name == name), None)


def show_text(panel: Panel, preset: Preset | None, experiment: Experiment | None, settings_of: SettingsOf) -> None:
    """Draw a preset's advice on what to look for, which is true at its own settings; at others, their changes.

    Draws nothing if the present experiment has another kind of problem or data than the preset.
    """
    if preset is None or experiment is None or _kinds(preset.experiment) != _kinds(experiment):
        return
    if preset.experiment == experiment:
        st.caption(preset.look_for)
        return
    values = settings_of(preset)
    changed_titles = [
        title
        for name, title in panel.titles.items()
        if name in values and st.session_state.get(panel.key(name)) != values[name]
    ]
    changed = f"These settings have been changed: {', '.join(changed_titles)}." if changed_titles else ""
    st.caption(f"**{preset.name}.** {changed}")


def show_story(panel: Panel, presets: Sequence[Preset]) -> None:
    """Draw the published results that the last preset repeats, with their source."""
    preset = _stored(panel, presets, "last_preset")
    if preset is not None:
        st.caption(f"**{preset.name}.** {preset.reported} *Source: {preset.source}.*")


def _kinds(experiment: Experiment) -> tuple[str, str]:
    """Return the kinds of problem and of data of an experiment."""
    data = experiment.problem.dataset
    return experiment.problem.kind, "" if data is None else data.kind


def _pick(panel: Panel, presets: Sequence[Preset]) -> None:
    """Make the preset that was picked in the menu pending; for its callback."""
    preset = _stored(panel, presets, "preset")
    # If another control changed at once, the menu may report what it showed before: that is no choice.
    if preset is not None and streamlit_patches.changed_alone(panel.key("preset")):
        _open(panel, preset)
