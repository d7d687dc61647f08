"""Pins of a page: runs with a name, which stay in its picture as faint lines while the settings change.

A list below the picture says how the present settings differ from each pin's. A pin is only settings and a name, so
links and files can hold it; its lines are then computed again, by an ordinary run. A preset may come with other
settings to compare it with: their lines are kept like those of pins, under a page prefix of their own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.compare import pins
from dpviz.compare.pins import MAX_NAME, MAX_PINS, Pin
from dpviz.errors import UserError
from dpviz.experiments.changes import differences
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.experiments.summary import Summary, summary
from dpviz.plots import pinned_overlay
from dpviz.plots.elements.chart import Chart
from dpviz.plots.pinned_overlay import PinnedPicture
from dpviz.ui import downloads, links, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.run import MakeChart, Run, StartableExperiment
from dpviz.ui.markdown import escape_name

ADDRESS = links.PIN  # name of the query parameter of a pin, which an address has once for each pin
EMPTY = PinnedPicture(axes=("", ""), pinned_lines=(), not_private=False)  # of a run without a picture that may be seen
_PINS, _REFUSED = "pins", "pins_refused"  # after a page's prefix: keys of its pins, and of the errors of refused ones
_COMPARED = "_compared"  # after a page's prefix: the prefix of the lines that its preset is compared with

MakeReady = Callable[[Experiment], StartableExperiment]  # makes an experiment ready to run; raises UserError
CanExpress = Callable[[Experiment], bool]  # returns true if a page's controls can express an experiment
Reader = Callable[[], Iterable[Pin]]  # reads pins from a link or a file; raises UserError


@dataclass(frozen=True, eq=False)
class PagePin:
    """A pin on a page.

    picture, summary : the lines of its run's picture and the summary of its results; None until they are computed.
    raw : true if these read the rows of a visitor's file, and so may be seen only while diagnostics are shown.
    key : text in the keys of its controls, different for each pin.
    run : the identity of the run that they are of.
    """

    pin: Pin
    picture: PinnedPicture | None = None
    summary: Summary | None = None
    raw: bool = False
    key: str = ""
    run: str = ""


def on_page(page: str) -> tuple[PagePin, ...]:
    """Return the pins of the page with the prefix `page`; in a reloaded tab, those that it had before."""
    key = f"{page}_{_PINS}"
    pinned: tuple[PagePin, ...] = st.session_state.get(key, visitors.current().notes.get(key, ()))
    return pinned


def read_address(panel: Panel, can_express: CanExpress) -> None:
    """Add the pins of the address with which the visitor came, once, and write the page's pins into the address.

    can_express : tells whether the page's controls can express an experiment; a pin of any other is refused.
    """
    if panel.key(_PINS) not in st.session_state:
        st.session_state[panel.key(_PINS)] = on_page(panel.page)
        import_pins(
            link_readers(max_links=MAX_PINS), can_express_by_page={panel.page: can_express}, error_page=panel.page
        )
    write_address(panel, on_page(panel.page))


def write_address(panel: Panel, page_pins: Sequence[PagePin]) -> None:
    """Write pins, except those about a visitor's file, into the page's address and the link on the screen.

    Without any pin the link on the screen has no parameter for them.
    """
    packed = [pinned.pin.to_link() for pinned in page_pins if pinned.pin.travels]
    if packed != st.query_params.get_all(ADDRESS):
        st.query_params[ADDRESS] = packed
    st.query_params.pop(links.PINS, None)  # each of its pins has a parameter of its own now
    if packed:
        panel.query[ADDRESS] = packed


def link_readers(max_links: int) -> list[Reader]:
    """Return functions that read the pins of the address with which the visitor came, each one pin or several.

    An address has a parameter for each pin, or one in which several are packed together. max_links : the largest
    number of parameters of either kind that are read.
    """
    single = st.query_params.get_all(ADDRESS)[:max_links]
    together = st.query_params.get_all(links.PINS)[:max_links]
    # `map` over a list of one parameter reads its pin only when asked for it, where errors are caught.
    readers: list[Reader] = [partial(map, pins.pin_from_link, [packed]) for packed in single]
    return [*readers, *(partial(pins.pins_from_link, packed) for packed in together)]


def with_pins(panel: Panel, make_chart: MakeChart, preset: Preset | None = None) -> MakeChart:
    """Return a function that makes a run's chart as `make_chart` does, with the faint lines of the page's pins in it.

    If the run has the settings of `preset`, the lines that the preset is compared with are drawn too. The caption names
    the pins that do not fit the picture: with other axes, or of another problem than the objective behind the lines.
    """

    def chart_with_pins(run: Run, diagnostics: bool) -> Chart | None:
        chart = make_chart(run, diagnostics)
        if chart is None:
            return None
        pinned_here = list(on_page(panel.page))
        if preset is not None and preset.comparisons and _is_of(run, preset):
            pinned_here += on_page(panel.page + _COMPARED)
        has_contours = any(trace.type == "contour" for trace in chart.figure.data)  # of the run's objective
        fitting, other_names = [], []
        for pinned in pinned_here:
            may_be_seen = not pinned.raw or results.diagnostics_shown(panel, pinned.pin.experiment)
            if pinned.picture is None or not may_be_seen:
                continue
            fits_contours = not has_contours or pinned.pin.experiment.problem == run.experiment.problem
            if fits_contours and pinned_overlay.same_axes(chart.figure, pinned.picture):
                fitting.append((pinned.pin.name, pinned.picture))
            else:
                other_names.append(f"*{escape_name(pinned.pin.name)}*")
        figure = pinned_overlay.with_pinned(chart.figure, fitting)
        has_pinned_lines = len(figure.data) > len(chart.figure.data)
        names = ", ".join(f"*{escape_name(name)}*" for name, _ in fitting)  # in italics `words.js` explains no term
        sentences = [texts.PINNED.format(names=names)] if has_pinned_lines else []
        if other_names:
            sentences.append(f"Pinned, and not drawn here: {', '.join(other_names)}.")
        return replace(chart, drawing=figure, caption=" ".join([*sentences, chart.caption]))

    return chart_with_pins


def compute_comparison(panel: Panel, title: str, preset: Preset, make_chart: MakeChart, make_ready: MakeReady) -> None:
    """Compute the lines that a preset is compared with, once the run of the preset itself has ended.

    Unlike pins they are not in the list, and they go when another preset is picked. title : of the page, in the names
    of these runs in the sidebar.
    """
    run, page = run_panel.finished_run(panel.page), panel.page + _COMPARED
    if not preset.comparisons or run is None or run.job.active or not _is_of(run, preset):
        return
    comparison_pins = [Pin(name, experiment) for name, experiment in preset.comparisons.items()]
    if [pinned.pin for pinned in on_page(page)] != comparison_pins:  # as after another preset was picked
        set_pins(page, [PagePin(pin, key=uuid4().hex[:8]) for pin in comparison_pins])
    under_way: list[Run] = []
    for pinned in on_page(page):
        if pinned.picture is None:
            under_way += compute_lines(Panel(page), title, pinned, make_chart, make_ready)
    run_panel.rerun_when_ended(f"{page}_poll", under_way)


def _is_of(run: Run, preset: Preset) -> bool:
    """Return true if a run has a preset's settings, with any number of repeats: it may have only the first ones."""
    return run.experiment.replaced(replicates=preset.experiment.replicates) == preset.experiment


def show_button(panel: Panel, make_chart: MakeChart, can_express: CanExpress) -> None:
    """Draw the button that pins the run whose results are shown, and the menu that saves and reads pins as a file.

    make_chart : makes the chart from which the pin takes its lines. can_express : as in `read_address`.
    """
    st.button(
        "Pin this run",
        key=panel.key("pin"),
        type="tertiary",
        icon=":material/keep:",
        disabled=_run_to_pin(panel.page) is None,
        on_click=_pin,
        args=(panel, make_chart),
        help=texts.PIN_HELP.format(most=MAX_PINS),
    )
    show_files(panel.page, on_page(panel.page), {panel.page: can_express})


def _run_to_pin(page: str) -> Run | None:
    """Return the run whose results the page shows; None if it was cut off or is pinned, or the page has no room."""
    run, page_pins = run_panel.finished_run(page), on_page(page)
    # A run that was cut off does not end as its settings would.
    if run is None or run.job.state != "done" or len(page_pins) >= MAX_PINS:
        return None
    for pinned in page_pins:
        # Another run on a file has other noise, also with the same settings.
        if pinned.run == run.identity or (run.is_restorable and pinned.pin.experiment == run.experiment):
            return None
    return run


def show(panel: Panel, title: str, experiment: Experiment | None, make_chart: MakeChart, make_ready: MakeReady) -> None:
    """Draw the list of a page's pins, each with its difference to the present settings.

    Computes the lines of pins that have none yet, as those from a link, and draws the page again when they are ready.

    experiment : the experiment of the present settings, None while they make none. make_ready : returns a pinned
    experiment ready to run; raises UserError.
    """
    show_refusals(panel.page)
    if len(on_page(panel.page)) == MAX_PINS:
        st.caption(texts.PINS_FULL.format(most=MAX_PINS))
    under_way: list[Run] = []
    for pinned in on_page(panel.page):
        text = ""
        if experiment is not None:
            changes = [escape_name(change.describe()) for change in differences(pinned.pin.experiment, experiment)]
            text = f"Changed since the pin: {'; '.join(changes)}." if changes else "The same settings as now."
        show_row(panel.page, pinned, pinned.pin.name, text)
        if pinned.picture is None:
            under_way += compute_lines(panel, title, pinned, make_chart, make_ready)
    run_panel.rerun_when_ended(panel.key("pins_poll"), under_way)


def show_refusals(page: str) -> None:
    """Draw the errors of pins in links and files that could not be added to the page with the prefix `page`."""
    for sentence in st.session_state.get(f"{page}_{_REFUSED}", ()):
        st.warning(sentence, icon=":material/link_off:")


def show_row(page: str, pinned: PagePin, name: str, text: str) -> DeltaGenerator:
    """Draw a pin in a row: its name, a text, and a menu to rename or remove it; return the row, to add more to it.

    name : the name under which the row shows the pin; another page may have a pin of the same name.
    """
    row_key = f"{page}_pinned_{pinned.key}"  # by this key `words.js` knows that bold text in the row is a name
    container = st.container(horizontal=True, vertical_alignment="center", gap="small", key=row_key)
    key = f"{page}_pin_{pinned.key}"
    with container:
        stays = "" if pinned.pin.travels else f" {texts.PIN_STAYS}"  # about a visitor's file
        st.markdown(f":small[**{escape_name(name)}.** {text}{stays}]", width="stretch")
        with st.popover(f"Edit {escape_name(name)}", key=f"{key}_menu", type="tertiary"):
            args = page, pinned.key, f"{key}_name"
            st.text_input("Name", value=pinned.pin.name, key=f"{key}_name", on_change=_rename, args=args)
            icon = ":material/keep_off:"
            st.button("Remove", key=f"{key}_remove", icon=icon, on_click=_remove, args=(page, pinned.key))
    return container


def show_files(page: str, page_pins: Sequence[PagePin], can_express_by_page: Mapping[str, CanExpress]) -> None:
    """Draw the menu that saves pins as a file, except those about a visitor's file, and reads pins from one.

    page : prefix of the page with the menu. can_express_by_page : by the prefix of each page that can take pins, the
        function that returns true if its controls can express an experiment.
    """
    with st.popover("Pins", key=f"{page}_pin_files", type="tertiary"):
        travelling = [pinned.pin for pinned in page_pins if pinned.pin.travels]
        if travelling:
            downloads.pins(page, travelling)
        key = f"{page}_pin_file"
        help = "Pins are settings with a name: they hold no data and no results."
        st.file_uploader(
            "Pins from a file", type="json", key=key, help=help, on_change=_load, args=(page, key, can_express_by_page)
        )


# -------------------------------------------------------------------------------------------------------------- changes


def set_pins(page: str, page_pins: Sequence[PagePin]) -> None:
    """Replace the pins of the page with the prefix `page`, and have its picture drawn again.

    The pins that are not about a visitor's file are also noted with the visitor, for the case that the tab is reloaded.
    """
    key = f"{page}_{_PINS}"
    st.session_state[key] = tuple(page_pins)
    visitors.current().notes[key] = tuple(pinned for pinned in page_pins if pinned.pin.travels)
    st.session_state.pop(f"{page.removesuffix(_COMPARED)}_picture", None)  # else the page shows its stored chart again


def import_pins(readers: Sequence[Reader], can_express_by_page: Mapping[str, CanExpress], error_page: str) -> None:
    """Read pins from links or files, and add each to the first page that can express it, if that has room.

    readers : functions that read pins. can_express_by_page : as in `show_files`. error_page : prefix of
    the page that shows the errors of the pins that were left out.
    """
    errors: list[UserError] = []
    for reader in readers:
        try:
            for pin in reader():
                _add(pin, can_express_by_page, errors)
        except UserError as error:
            errors.append(error)
    st.session_state[f"{error_page}_{_REFUSED}"] = [
        f"A pin was left out. {escape_name(str(error))}" for error in errors
    ]


def _add(pin: Pin, can_express_by_page: Mapping[str, CanExpress], errors: list[UserError]) -> None:
    """Add a pin to the first page that can express it; if that fails, append why to `errors`."""
    page = next((page for page, can_express in can_express_by_page.items() if can_express(pin.experiment)), None)
    if page is None:
        errors.append(UserError("It belongs to another page."))
        return
    if any(pin == pinned.pin for pinned in on_page(page)):  # as when its page has written it into the address
        return
    if len(on_page(page)) >= MAX_PINS:
        errors.append(UserError(texts.PINS_FULL.format(most=MAX_PINS)))
        return
    set_pins(page, (*on_page(page), PagePin(pin, key=uuid4().hex[:8])))


def _pin(panel: Panel, make_chart: MakeChart) -> None:
    """Pin the run whose results the page shows, under the first free name "Pin 1", "Pin 2", …; for a callback."""
    page = panel.page
    run = _run_to_pin(page)
    if run is None:  # as after a second press before the first was drawn
        return
    pages = [str(key).removesuffix(f"_{_PINS}") for key in st.session_state if str(key).endswith(f"_{_PINS}")]
    # A name is free if no page has it, as the pins of all pages can be compared.
    names = {pinned.pin.name for other in pages for pinned in on_page(other)}
    pinned = PagePin(Pin(_free_name("Pin", 1, names), run.experiment), key=uuid4().hex[:8])
    set_pins(page, (*on_page(page), _with_results(panel, pinned, run, make_chart)))
    st.session_state[panel.key(_REFUSED)] = []


def _free_name(stem: str, first: int, names: Collection[str]) -> str:
    """Return the first of "<stem> <first>", "<stem> <first + 1>", … that is not among `names`."""
    candidates = (f"{stem} {number}" for number in count(first))
    return next(name for name in candidates if name not in names)


def _with_results(panel: Panel, pinned: PagePin, run: Run, make_chart: MakeChart) -> PagePin:
    """Return a pin with the lines and the summary of its run, as far as these may be seen now."""
    diagnostics = results.diagnostics_shown(panel, run.experiment)
    chart, trace = make_chart(run, diagnostics), run.job.trace
    assert trace is not None
    references = {arm.label for arm in run.experiment.arms if arm.reference}
    return replace(
        pinned,
        picture=EMPTY if chart is None else pinned_overlay.pinned_parts(chart.figure, references),
        summary=summary(trace.visible(diagnostics)),
        raw=diagnostics and not run.experiment.problem.public,
        run=run.identity,
    )


def _rename(page: str, key: str, widget_key: str) -> None:
    """Give the pin with the key `key` the name typed into the control with the key `widget_key`; for a callback.

    The name loses what a chart cannot show, and gets a number if another pin of the page has it; the control then shows
    the result. An empty name changes nothing.
    """
    page_pins = on_page(page)
    (old_name,) = (pinned.pin.name for pinned in page_pins if pinned.key == key)
    name = pins.clean(st.session_state[widget_key]) or old_name
    if any(pinned.pin.name == name for pinned in page_pins if pinned.key != key):
        # Cut to leave room for " 2" or another digit: a page has fewer than ten pins.
        name = _free_name(name[: MAX_NAME - 2].rstrip(), 2, {pinned.pin.name for pinned in page_pins})
    st.session_state[widget_key] = name
    _replace(page, key, lambda pinned: replace(pinned, pin=replace(pinned.pin, name=name)))


def _replace(page: str, key: str, change: Callable[[PagePin], PagePin]) -> None:
    """Replace the pin of a page with the key `key` by the one that `change` makes of it."""
    set_pins(page, [change(pinned) if pinned.key == key else pinned for pinned in on_page(page)])


def _remove(page: str, key: str) -> None:
    """Remove the pin with the key `key`, and the errors of refused pins, as there is room again; for a callback."""
    set_pins(page, [pinned for pinned in on_page(page) if pinned.key != key])
    st.session_state[f"{page}_{_REFUSED}"] = []


def _load(page: str, widget_key: str, can_express_by_page: Mapping[str, CanExpress]) -> None:
    """Add the pins of the file in the control with the key `widget_key` to pages that can express them; a callback."""
    file = st.session_state[widget_key]
    if file is not None:  # None after the visitor has removed the file from the control
        import_pins([lambda: pins.from_file(file.getvalue())], can_express_by_page, page)


# ------------------------------------------------------------------------------------------------------------ computing


def compute_lines(
    panel: Panel, title: str, pinned: PagePin, make_chart: MakeChart, make_ready: MakeReady
) -> Sequence[Run]:
    """Compute the lines of a pin that has none, by an ordinary run; return [the run] while it is under way, else [].

    When the run has ended, the pin gets its lines and the page is drawn again. If it cannot run, a caption says why.
    title : of the page, in the name of the run. make_ready : as in `show`.
    """
    key = panel.key(f"pin_{pinned.key}_job")
    run: Run | None = st.session_state.get(key)
    if run is None:
        try:
            ready = make_ready(pinned.pin.experiment)  # with its plans
        except UserError as error:
            st.caption(f"No lines: {escape_name(str(error))}")
            return ()
        if ready.too_much:
            st.caption("No lines: this run would need more memory than a run may use.")
            return ()
        name = f"{title}, {escape_name(pinned.pin.name)}"
        run = ready.start(panel.page, name, short=ready.has_few_repeats)
        visitors.current().keep(key, run)
        run.job.wait(run_panel.START_WAIT)  # a quick run has ended then, and needs no further drawing of the page
    if run.job.active:
        st.caption(f":material/hourglass_top: {escape_name(pinned.pin.name)}: lines are being computed.")
        return (run,)
    if run.job.state == "stopped":  # as when its tab was loaded again: its lines are incomplete, so it runs again
        visitors.current().drop(key)
        st.rerun()
    if run.job.state != "done":
        st.caption(f"No lines: {run.job.message or 'the run takes longer than a run may.'}")
        return ()
    pin_with_lines = _with_results(panel, pinned, run, make_chart)
    _replace(panel.page, pinned.key, lambda _: pin_with_lines)
    visitors.current().drop(key)  # the pin keeps the lines, so the run with all its results can go
    st.rerun()
