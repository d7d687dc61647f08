"""What tests with processes of their own share."""

from collections.abc import Iterator

import pytest

from dpviz.experiments import processes


@pytest.fixture(scope="module")
def in_a_crowd() -> Iterator[None]:
    """Children do not step back: beside other tests, which keep all processors busy, they would wait for minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "LOWEST", 0)
        yield
