"""What the page of an upload shows without diagnostics is a function of what the mechanisms release, and of no more.

Releases are blinded: every mechanism gets zeros in place of the data's values, and the noise is seeded. Two different
files with the same declarations must then give the same page and the same downloads, to the last digit, although one of
them takes 100 times as long to compute with as the other: times are functions of the data.
"""

import io
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.execution import runner
from dpviz.experiments import experiment
from dpviz.privacy.batches import Batch
from dpviz.privacy.mechanisms import Mechanisms, PrefixSums  # type: ignore[attr-defined]
from dpviz.privacy.releases import Query
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.families import FAMILIES
from dpviz.ui.uploads import file as upload_file
from tests.confirming import confirmed
from tests.pages.reading import Load, all_methods, charts, lines, run
from tests.pages.test_mirror_uploads import KINDS, TABLES, declare, people
from tests.pages.test_mirror_uploads import upload as mirror_upload

Page = dict[str, object]
RANGES = {0: {"lowest": 0.0, "highest": 100.0}, 1: {"lowest": 0.0, "highest": 9000.0}}
# By the name of each family but that of games, whose problems have controls of their own for their data.
PREFIX = {family.name: family.page().prefix for family in FAMILIES if family.name != "mirror_descent"}
SHARES = {"groups": {"north": 0.25, "south": 0.5}, "losses": {"a": 0.5, "b": 0.4}}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Blinds all mechanisms, and what else differs from run to run; what the download buttons would deliver."""
    for owner, name in (
        (Batch, "_released"),
        (Batch, "_first_above"),
        (Mechanisms, "exponential"),
        (Mechanisms, "above_threshold"),
        (PrefixSums, "add"),
    ):
        monkeypatch.setattr(owner, name, blinded(getattr(owner, name)))
    monkeypatch.setattr(upload_file, "new_identity", lambda: "0" * 32)
    found: dict[str, tuple[str, Callable[[], bytes]]] = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, file_name: str, **_: object) -> None:
        found[key] = (file_name, data)

    monkeypatch.setattr(st, "download_button", keep)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What makes all runs take so many times as long by the clock: the entry "slower"."""
    rate = {"slower": 1.0}
    monkeypatch.setattr(experiment, "time", SimpleNamespace(thread_time=lambda: rate["slower"] * time.thread_time()))
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: rate["slower"] * time.monotonic()))
    return rate


def blinded(release: Callable[..., object]) -> Callable[..., object]:
    def with_zeros(self: object, query: Query, *arguments: object, **options: object) -> object:
        return release(self, query._replace(value=np.zeros_like(query.value)), *arguments, **options)

    return with_zeros


def another(data: bytes) -> bytes:
    """As many rows, drawn from the same file."""
    return pd.read_csv(io.BytesIO(data)).sample(frac=1, replace=True, random_state=3).to_csv(index=False).encode()


def edit(app: AppTest, name: str, changes: dict[str, object]) -> None:
    for editor in app.data_editor:
        if f"_{name}_" in editor.key:
            app.session_state[editor.key] = {"edited_rows": {}, "added_rows": [], "deleted_rows": []} | changes
    app.run()
    assert not app.exception


def prepared(load: Load, problem: str, data: bytes) -> AppTest:
    """The page of an upload with everything declared, ready to run."""
    if problem in PREFIX:
        prefix = PREFIX[problem]
        few = {f"{prefix}_data": "Your own file", f"{prefix}_iterations": "6", f"{prefix}_file_replicates": "2"}
        app = load(problem, **few, second_epsilon="50")  # so that gradients are small, and Hessians asked for
        app.file_uploader[0].upload("mine.csv", data, "text/csv")
        confirmed(app.run())
    else:
        app = mirror_upload(load, problem, data)
    if problem == "synthetic":
        return declare(app, area="city, town", age="bins: 0, 40, 80", pets="cat, dog")
    if problem in SHARES:
        edit(
            app, "members", {"added_rows": [{"group": name, "share": share} for name, share in SHARES[problem].items()]}
        )
    edit(app, "ranges", {"edited_rows": RANGES})
    return app


def shown(app: AppTest, files: dict[str, tuple[str, Callable[[], bytes]]]) -> Page:
    """All words, tables, charts and downloads of a page, apart from what it says about the file to who uploaded it."""
    words = [*app.markdown, *app.caption, *app.info, *app.success, *app.warning, *app.error, *app.subheader]
    texts = [element.value for element in words]
    page: Page = {f"text {place}": text for place, text in enumerate(texts) if "counted in the file" not in text}
    page |= {f"table {place}": frame.value.to_csv() for place, frame in enumerate(app.dataframe)}
    page |= {f"chart {alt}": chart for alt, chart in charts(app).items()}
    page |= {f"number {place}": (card.label, card.value, card.delta) for place, card in enumerate(app.metric)}
    for name in (f"{prefix}_picture" for prefix in ("mirror", *PREFIX.values())):  # none before the first run
        if name in app.session_state and (picture := app.session_state[name][1]) is not None:
            page["live picture"] = (
                picture.figure.to_json(),
                picture.heading,
                picture.alt,
                picture.caption,
                picture.provenance,
            )
    return page | {f"file {key}": (name, data()) for key, (name, data) in files.items()}


@pytest.mark.parametrize("problem", [*PREFIX, *KINDS])
def test_two_files_whose_releases_are_alike_look_alike(
    load: Load, files: dict[str, tuple[str, Callable[[], bytes]]], clock: dict[str, float], problem: str
) -> None:
    data = pd.read_csv(io.BytesIO(people())).drop(columns="region").to_csv(index=False).encode()
    data = TABLES.get(problem, lambda: data)()
    prefix = PREFIX.get(problem, "mirror")
    pages: list[Page] = []
    for content, clock["slower"] in ((data, 1.0), (another(data), 100.0)):
        files.clear()
        app = prepared(load, problem, content)
        app.toggle(key=f"{prefix}_fixed_seed").set_value(True).run()
        app.toggle(key=f"{prefix}_references").set_value(True).run()
        app = run(all_methods(app), press=f"{prefix}_run", job=f"{prefix}_job")
        pages.append(shown(app, files))
    assert len(pages[0]) > 30 and any("csv" in name for name in files) and "live picture" in pages[0]
    assert list(pages[0]) == list(pages[1])
    assert not [name for name in pages[0] if pages[0][name] != pages[1][name]]

    arm_traces = app.session_state[f"{prefix}_job"].job.trace.arm_traces.values()
    assert all(lane.seconds > 0 for lane in arm_traces) and not any("Time" in name for name in app.dataframe[-1].value)
    app.toggle(key=f"{prefix}_diagnostics").set_value(True).run()
    assert len(shown(app, files)) > len(pages[1])  # there is something to hide
    assert "Time [s] (not private)" in app.dataframe[-1].value
    (said,) = (note.value for note in app.caption if "**Not private**, because" in note.value)
    assert "Time [s]" in said, "labelled where it is shown"


def test_sweeps_of_two_files_whose_releases_are_alike_look_alike(
    load: Load, files: dict[str, tuple[str, Callable[[], bytes]]], clock: dict[str, float]
) -> None:
    data = pd.read_csv(io.BytesIO(people())).drop(columns="region").to_csv(index=False).encode()
    pages: list[Page] = []
    for content, clock["slower"] in ((data, 1.0), (another(data), 100.0)):
        files.clear()
        app = prepared(load, "accelerated", content)
        app.toggle(key="accel_fixed_seed").set_value(True).run()
        app.toggle(key="accel_references").set_value(True).run()
        app.session_state["accel_section"] = "Sweep"
        app.run().number_input(key="accel_vary_epsilon_values").set_value(2.0).run()
        assert any("every run of a method at a point is a release" in info.value for info in app.info)
        (menu,) = [menu for menu in app.selectbox if menu.key == "accel_vary_metric"]
        assert menu.options == ["Distance travelled ‖x_t - x_0‖", "Noisy gradient norm ‖g̃_t‖"], "what is released"
        run(app, press="accel_vary_sweep_run", job="accel_vary_sweep_job")
        pages.append(shown(app, files))
    sweep = app.session_state["accel_vary_sweep_job"].job
    assert sweep._tables == {} and any(not curve.released for curve in sweep.result.curves.values()), "references"
    assert not any("no privacy" in name for alt in charts(app) for name in lines(app, alt))
    assert any(name.startswith("chart Distance travelled") for name in pages[0]) and "file accel_sweep_csv" in pages[0]
    assert list(pages[0]) == list(pages[1])
    assert not [name for name in pages[0] if pages[0][name] != pages[1][name]]


def test_a_file_runs_by_click_only_and_its_run_is_never_shown_open_beside_other_data(load: Load) -> None:
    """Runs at every change are for public data: neither a file that is ready nor a setting starts one; and leaving the
    file does not uncover what its run keeps hidden."""
    app = load("accelerated", accel_data="Your own file", accel_iterations="6", accel_file_replicates="2")
    app.query_params["accel_follow"] = "true"
    app.session_state["accel_follow"] = True
    data = pd.read_csv(io.BytesIO(people())).drop(columns="region").to_csv(index=False).encode()
    app.file_uploader[0].upload("mine.csv", data, "text/csv")
    confirmed(app.run())
    edit(app, "ranges", {"edited_rows": RANGES})
    app.number_input(key="accel_iterations").set_value(5).run()
    app.toggle(key="accel_references").set_value(True).run()
    assert "Ready" in " ".join(note.value for note in app.success) and not app.button(key="accel_run").disabled
    assert "accel_job" not in app.session_state and "runs start by click only" in " ".join(c.value for c in app.caption)
    app = run(app, press="accel_run", job="accel_job")
    mine = app.session_state["accel_job"]
    assert not any("reference" in lane or "no privacy" in lane for lane in _drawn(app))
    kept = run_panel.runner()._kept.values()
    assert mine.job not in kept and not any(job.task == mine.experiment for job in kept)
    assert any("no privacy" in lane for lane in mine.job.trace.arm_traces), "there is something to hide"
    app.session_state["accel_follow"] = False
    app.selectbox(key="accel_data").set_value("uniform").run()
    assert not app.exception and app.session_state["accel_job"] is mine
    assert not any("no privacy" in lane for lane in _drawn(app))


def _drawn(app: AppTest) -> set[str]:
    """The names of the lines of the live picture."""
    _, picture, _ = app.session_state["accel_picture"]
    return {trace.name for trace in picture.figure.data if trace.name}
