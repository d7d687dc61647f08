"""Pins of a page: runs that stay in its picture as faint lines while the settings move on, with what has changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.compare import pins
from dpviz.compare.pins import MOST, MOST_NAME, Pin
from dpviz.errors import UserError
from dpviz.experiments.changes import differences
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.experiments.summary import Summary, summary
from dpviz.plots import pinned_overlay
from dpviz.plots.elements.chart import Chart
from dpviz.plots.pinned_overlay import Drawn
from dpviz.ui import downloads, links, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.run import Ready, Run
from dpviz.ui.markdown import plain

ADDRESS = links.PIN  # name of a pin in the address, once for each
NOTHING = Drawn(("", ""), (), False)
_PINS, _REFUSED = "pins", "pins_refused"
_BESIDE = "_beside"  # behind a page's prefix: what its preset is compared with

Draw = Callable[[Run, bool], Chart | None]
View = Callable[[Experiment], Ready]
Known = Callable[[Experiment], bool]  # whether a page could have made a run
Read = Callable[[], Iterable[Pin]]  # raises UserError


@dataclass(frozen=True, eq=False)
class Pinned:
    """A pin on a page.

    drawn, summary : what is kept of its picture and of its series; None while that has to be computed. raw : whether
    that was of a file with the diagnostics shown, and is seen only while they are. key : its own, for its controls.
    """

    pin: Pin
    drawn: Drawn | None = None
    summary: Summary | None = None
    raw: bool = False
    key: str = ""


def of(page: str) -> tuple[Pinned, ...]:
    """Return the pins of the page with this prefix; in a reloaded tab, those that it had before."""
    key = f"{page}_{_PINS}"
    found: tuple[Pinned, ...] = st.session_state.get(key, visitors.here().notes.get(key, ()))
    return found


def arrive(panel: Panel, known: Known) -> None:
    """Add the pins of the address with which the visitor came, and keep the address up to date.

    known : whether the page could have made a run.
    """
    if panel.key(_PINS) not in st.session_state:
        st.session_state[panel.key(_PINS)] = of(panel.page)
        take(linked(MOST), {panel.page: known}, panel.page)
    address(panel, of(panel.page))


def address(panel: Panel, kept: Sequence[Pinned]) -> None:
    """Write the pins that a link may contain into the page's address and into the link on the screen."""
    written = [pinned.pin.to_link() for pinned in kept if pinned.pin.travels]
    if written != st.query_params.get_all(ADDRESS):
        st.query_params[ADDRESS] = written
    st.query_params.pop(links.PINS, None)
    if written:
        panel.query[ADDRESS] = written


def linked(most: int) -> list[Read]:
    """What reads the pins of the address that the visitor came with, so many at most."""
    alone, as_one = (st.query_params.get_all(name)[:most] for name in (ADDRESS, links.PINS))
    found: list[Read] = [partial(map, pins.from_link, [link]) for link in alone]
    return [*found, *(partial(pins.from_together, link) for link in as_one)]


def beneath(panel: Panel, draw: Draw, preset: Preset | None = None) -> Draw:
    """What draws a run's picture, with the faint lines of the page's pins in it; in a preset's, also of what it is
    compared with."""

    def haunted(run: Run, diagnostics: bool) -> Chart | None:
        picture = draw(run, diagnostics)
        if picture is None:
            return None
        ground = any(trace.type == "contour" for trace in picture.figure.data)
        seen, others = [], []
        own = preset is not None and preset.beside and _is_of(run, preset)
        for pinned in (*of(panel.page), *(of(panel.page + _BESIDE) if own else ())):
            if pinned.drawn is None or (pinned.raw and not results.diagnostics_shown(panel, pinned.pin.experiment)):
                continue
            here = not ground or pinned.pin.experiment.problem == run.experiment.problem
            if here and pinned_overlay.same_axes(picture.figure, pinned.drawn):
                seen.append((pinned.pin.name, pinned.drawn))
            else:
                others.append(plain(pinned.pin.name))
        figure = pinned_overlay.over(picture.figure, seen)
        said = [texts.PINNED] if figure is not picture.figure else []
        if others:
            said.append(f"Pinned, and not drawn, as the axes differ: {', '.join(others)}.")
        return replace(picture, drawn=figure, caption=" ".join([*said, picture.caption]))

    return haunted


def compare(panel: Panel, title: str, preset: Preset, draw: Draw, view: View) -> None:
    """Compute what a preset is compared with, behind its own run: lines that come and go with it, unlike a pin."""
    run, page = run_panel.shown(panel.page), panel.page + _BESIDE
    if not preset.beside or run is None or run.job.active or not _is_of(run, preset):
        return
    wanted = [Pin(name, experiment) for name, experiment in preset.beside.items()]
    if [pinned.pin for pinned in of(page)] != wanted:
        keep(page, [Pinned(pin, key=uuid4().hex[:8]) for pin in wanted])
    missing = [pinned for pinned in of(page) if pinned.drawn is None]
    under_way = (computed(Panel(page), title, pinned, draw, view) for pinned in missing)
    run_panel.until_ended(f"{page}_look", [run for found in under_way for run in found])


def _is_of(run: Run, preset: Preset) -> bool:
    """Return true if a run has a preset's settings, or the first of its repeats."""
    return run.experiment.replaced(replicates=preset.experiment.replicates) == preset.experiment


def button(panel: Panel, draw: Draw, known: Known) -> None:
    """Draw the buttons that pin the run whose results are shown, and that save or read pins as a file."""
    run = run_panel.shown(panel.page)
    kept = of(panel.page)
    again = run is not None and run.returns and any(run.experiment == pinned.pin.experiment for pinned in kept)
    st.button(
        "Pin this run",
        key=panel.key("pin"),
        type="tertiary",
        icon=":material/keep:",
        disabled=run is None or again or len(kept) >= MOST,
        on_click=_pin,
        args=(panel, draw),
        help=texts.PIN_HELP.format(most=MOST),
    )
    files(panel.page, kept, {panel.page: known})


def show(panel: Panel, title: str, experiment: Experiment | None, draw: Draw, view: View) -> None:
    """Draw the list of pins, with the changes since; compute the lines of pins that came without.

    experiment : of the present settings. view : returns a pinned experiment, ready to run; raises UserError.
    """
    refusals(panel.page)
    if len(of(panel.page)) == MOST:
        st.caption(texts.PINS_FULL.format(most=MOST))
    under_way: list[Run] = []
    for pinned in of(panel.page):
        row(panel.page, pinned, pinned.pin.name, _changed(pinned, experiment))
        if pinned.drawn is None:
            under_way += computed(panel, title, pinned, draw, view)
    run_panel.until_ended(panel.key("pins_look"), under_way)


def refusals(page: str) -> None:
    """Draw the errors of pins that came from outside."""
    for sentence in st.session_state.get(f"{page}_{_REFUSED}", ()):
        st.warning(sentence, icon=":material/link_off:")


def row(page: str, pinned: Pinned, name: str, words: str) -> DeltaGenerator:
    """A pin with what it is called here and what is said of it, and what can be done with it; the place for more."""
    key = f"{page}_pinned_{pinned.key}"  # in which `words.js` takes what is bold for a name
    place = st.container(horizontal=True, vertical_alignment="center", gap="small", key=key)
    with place:
        stays = "" if pinned.pin.travels else f" {texts.PIN_STAYS}"
        st.markdown(f":small[**{plain(name)}.** {words}{stays}]", width="stretch")
        _menu(page, pinned, name)
    return place


def _changed(pinned: Pinned, experiment: Experiment | None) -> str:
    """Describe the changes from the pin to the present settings."""
    changed = () if experiment is None else differences(pinned.pin.experiment, experiment)
    changes = "; ".join(plain(part.describe()) for part in changed)
    return f"Changed since the pin: {changes}." if changed else "The same settings as now." if experiment else ""


def _menu(page: str, pinned: Pinned, name: str) -> None:
    key = f"{page}_pin_{pinned.key}"
    with st.popover(f"Edit {plain(name)}", key=f"{key}_menu", type="tertiary"):
        st.text_input(
            "Name", value=pinned.pin.name, key=f"{key}_name", on_change=_rename, args=(page, pinned.key, f"{key}_name")
        )
        st.button("Remove", key=f"{key}_remove", icon=":material/keep_off:", on_click=_remove, args=(page, pinned.key))


def files(page: str, kept: Sequence[Pinned], places: Mapping[str, Known]) -> None:
    """Draw the controls that save and read pins as a file. places : the pages whose pins are read, by prefix."""
    with st.popover("Pins", key=f"{page}_pin_files", type="tertiary"):
        travelling = [pinned.pin for pinned in kept if pinned.pin.travels]
        if travelling:
            downloads.pins(page, travelling)
        key = f"{page}_pin_file"
        help = "Pins are settings with a name: they hold no data and no results."
        st.file_uploader("Pins from a file", type="json", key=key, help=help, on_change=_load, args=(page, key, places))


# -------------------------------------------------------------------------------------------------------------- changes


def keep(page: str, kept: Sequence[Pinned]) -> None:
    """Set the pins of a page and have its picture drawn again. The tab remembers the pins that are not about a file."""
    key = f"{page}_{_PINS}"
    st.session_state[key] = tuple(kept)
    visitors.here().notes[key] = tuple(one for one in kept if one.pin.travels)
    st.session_state.pop(f"{page.removesuffix(_BESIDE)}_picture", None)


def take(found: Sequence[Read], places: Mapping[str, Known], said: str) -> None:
    """Add pins that came from outside to the pages that know them, as far as there is room.

    places : the pages by prefix. said : the page that shows the errors of the others.
    """
    refused: list[UserError] = []
    for read in found:
        try:
            for pin in read():
                refused += _taken(pin, places)
        except UserError as error:
            refused.append(error)
    st.session_state[f"{said}_{_REFUSED}"] = [f"A pin was left out. {plain(str(error))}" for error in refused]


def _taken(pin: Pin, places: Mapping[str, Known]) -> Sequence[UserError]:
    """Add a pin to the page that knows it; return the error that prevents it, if any."""
    page = next((page for page, known in places.items() if known(pin.experiment)), None)
    if page is None:
        return [UserError("It belongs to another page.")]
    if any(pin == pinned.pin for pinned in of(page)):  # as when its page has written it into the address
        return ()
    if len(of(page)) >= MOST:
        return [UserError(texts.PINS_FULL.format(most=MOST))]
    keep(page, (*of(page), Pinned(pin, key=uuid4().hex[:8])))
    return ()


def _pin(panel: Panel, draw: Draw) -> None:
    run, page = run_panel.shown(panel.page), panel.page
    if run is None:
        return
    pages = (str(key).removesuffix(f"_{_PINS}") for key in st.session_state if str(key).endswith(f"_{_PINS}"))
    names = {pinned.pin.name for other in pages for pinned in of(other)}  # of all pages: they can be compared
    name = next(name for number in count(1) if (name := f"Pin {number}") not in names)
    pinned = Pinned(Pin(name, run.experiment), key=uuid4().hex[:8])
    keep(page, (*of(page), _filled(panel, pinned, run, draw)))
    st.session_state[panel.key(_REFUSED)] = []


def _filled(panel: Panel, pinned: Pinned, run: Run, draw: Draw) -> Pinned:
    """Return the pin with the part of its run that may be seen now."""
    diagnostics = results.diagnostics_shown(panel, run.experiment)
    picture, trace = draw(run, diagnostics), run.job.trace
    assert trace is not None
    references = {arm.label for arm in run.experiment.arms if arm.reference}
    return replace(
        pinned,
        drawn=NOTHING if picture is None else pinned_overlay.taken(picture.figure, references),
        summary=summary(trace.visible(diagnostics)),
        raw=diagnostics and not run.experiment.problem.public,
    )


def _rename(page: str, key: str, widget: str) -> None:
    """Take the name that was typed, as far as it can stand in a chart, and show it so; an empty one changes nothing."""
    kept = of(page)
    (before,) = (one.pin.name for one in kept if one.key == key)
    name = pins.clean(st.session_state[widget]) or before
    if any(one.pin.name == name for one in kept if one.key != key):
        taken = {one.pin.name for one in kept}
        name = next(free for number in count(2) if (free := f"{name[: MOST_NAME - 2]} {number}") not in taken)
    st.session_state[widget] = name
    keep(page, [replace(one, pin=replace(one.pin, name=name)) if one.key == key else one for one in kept])


def _remove(page: str, key: str) -> None:
    keep(page, [one for one in of(page) if one.key != key])
    st.session_state[f"{page}_{_REFUSED}"] = []


def _load(page: str, widget: str, places: Mapping[str, Known]) -> None:
    file = st.session_state[widget]
    if file is not None:
        take([lambda: pins.from_file(file.getvalue())], places, page)


# ------------------------------------------------------------------------------------------------------------ computing


def computed(panel: Panel, title: str, pinned: Pinned, draw: Draw, view: View) -> Sequence[Run]:
    """Compute the lines of a pin that came without, by an ordinary run; return the run while it is under way."""
    key = panel.key(f"pin_{pinned.key}_job")
    run: Run | None = st.session_state.get(key)
    if run is None:
        try:
            ready = view(pinned.pin.experiment)
        except UserError as error:
            st.caption(f"No lines: {plain(str(error))}")
            return ()
        if ready.too_much:
            st.caption("No lines: this run would need more memory than a run may use.")
            return ()
        run = ready.started(panel.page, f"{title}, {plain(pinned.pin.name)}", short=ready.few)
        visitors.here().keep(key, run)
        run.job.wait(run_panel.FIRST_PICTURE)
    if run.job.active:
        st.caption(":material/hourglass_top: Its lines are being computed.")
        return (run,)
    if run.job.state == "stopped":  # as when its tab was loaded again; what there is of its lines ends anywhere
        visitors.here().drop(key)
        st.rerun()
    if run.job.trace is None:
        st.caption(f"No lines: {run.job.message or 'the run ended before it began.'}")
        return ()
    filled = _filled(panel, pinned, run, draw)
    keep(panel.page, [filled if one.key == pinned.key else one for one in of(panel.page)])
    visitors.here().drop(key)
    st.rerun()
