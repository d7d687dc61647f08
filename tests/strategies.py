"""Random events for tests of what must hold for all of them, always the same ones."""

from hypothesis import settings
from hypothesis import strategies as st

from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Repeat, Seq, StatedPureDP, Sub

steady = settings(derandomize=True, deadline=None, max_examples=25)
laplaces = st.floats(-3, 0.5).map(lambda x: Laplace(10**x))
gaussians = st.floats(-3, 0.5).map(lambda x: Gaussian(10**x))
singles = laplaces | gaussians | st.floats(-3, 0.5).map(lambda x: ExpMech(10**x) if x < -1 else StatedPureDP(10**x))
several = st.lists(singles, min_size=1, max_size=3).map(tuple)
composites = several.map(Seq) | several.map(Parallel) | st.builds(Repeat, several.map(Seq), st.integers(1, 5))


def histories(kind: str) -> st.SearchStrategy[list[Event]]:
    """Events of which those on batches have them drawn in one way, as one relation asks."""
    sampled = st.builds(lambda m, inner: Sub(kind, m, 100, inner), st.integers(1, 99), singles | composites)
    return st.lists(singles | composites | sampled, min_size=1, max_size=6)


events_of_all_kinds = st.sampled_from(["wor", "poisson"]).flatmap(histories)
