"""Labels at the ends of lines: the final value, none over another, and a legend where there is no room."""

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements.labels import NAME, spread


def labels(figure: go.Figure) -> list[go.layout.Annotation]:
    return [note for note in figure.layout.annotations if note.name == NAME]


def test_places_are_as_wanted_where_there_is_room() -> None:
    heights = np.full(3, 14.0)
    np.testing.assert_allclose(spread(np.array([100.0, 20.0, 60.0]), 200, heights), [100, 20, 60])
    np.testing.assert_allclose(spread(np.array([100.0, 100.0]), 200, heights[:2]), [93, 107])
    np.testing.assert_allclose(spread(np.array([200.0, 200.0, 199.0]), 200, heights), [179, 193, 165])
    np.testing.assert_allclose(spread(np.zeros(3), 42, heights), [7, 21, 35])
    assert len(spread(np.zeros(0), 42, np.zeros(0))) == 0
