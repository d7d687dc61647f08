import re

import pytest

from dpviz.plots.elements.chart import Chart, to_html
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.plan_figures import noise_schedule, privacy_spent
from dpviz.plots.run_figures import convergence


@pytest.mark.slow
def test_one_page_with_everything_in_it(experiment, trace) -> None:
    plans, styles = experiment.plans(), arm_styles(experiment.arms)
    figures = [
        Chart(noise_schedule(plans, styles).figure, "Noise <scale>", "", "Depends on settings only."),
        privacy_spent(plans, styles, "epsilon", 2.0),
        Chart(
            convergence(trace, "objective_gap", styles),
            "Loss",
            "",
            "*Pin*: F* - F*. **Not private**: reads <raw> data.",
        ),
    ]
    page = to_html(figures, '{"label": "<script>alert(1)</script>"}')
    assert page.startswith("<!doctype html>") and "<title>dpviz</title>" in page
    assert [f'id="figure-{i}"' in page for i in range(4)] == [True, True, True, False]
    assert "<h2>Noise &lt;scale&gt;</h2>" in page
    assert "<em>Pin</em>: F* - F*. <strong>Not private</strong>: reads &lt;raw&gt; data." in page
    assert "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page
    assert page.count("plotly.js v") == 1 and 4e6 < len(page) < 6e6
    assert page.count('"showSendToCloud": false') == 3 and '"showSendToCloud": true' not in page


def test_the_page_loads_nothing_from_elsewhere(experiment) -> None:
    noise = noise_schedule(experiment.plans(), arm_styles(experiment.arms))
    page = to_html([noise, Chart(noise.figure, "Loss", "", "", "partly private")], "")
    assert "<h2>Loss (partly private)</h2>" in page and f"<h2>{noise.heading}</h2>" in page
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
