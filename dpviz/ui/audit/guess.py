"""Your own guess first: the visitor places a threshold on the practice runs, before the runs that count are shown."""

import numpy as np
import streamlit as st

from dpviz.audits.audit import Progress
from dpviz.execution.auditing import Auditing
from dpviz.numbers import short, short_down
from dpviz.specification import Control
from dpviz.ui.audit import results, texts
from dpviz.ui.audit.verdict import proven_at, verdict
from dpviz.ui.controls import Panel

_SEEN, _SHOWN = "_seen", "_shown"


def wanted(panel: Panel) -> bool:
    """Whether the visitor wants to guess before seeing."""
    return panel.switch("guess", "Your own guess first", False, texts.GUESS_HELP)


def seen(panel: Panel, auditing: Auditing) -> float | None:
    """The threshold with which the visitor has asked to see this audit; None before that."""
    text, threshold, _ = st.session_state.get(panel.key(_SEEN), ("", None, False))
    return threshold if text == auditing.to_json() else None


def shown(panel: Panel, auditing: Auditing) -> None:
    """Remember that the visitor sees what this audit has found: a threshold placed after that proves nothing."""
    st.session_state.setdefault(panel.key(_SHOWN), set()).add(auditing.to_json())


def place(panel: Panel, auditing: Auditing, progress: Progress) -> None:
    """The practice runs, a threshold to be placed on them, and the button that shows what it proves."""
    st.markdown(texts.GUESS)
    practised = len(progress.present) >= progress.tuning
    edges = results.bins(progress.present[: progress.tuning], progress.absent[: progress.tuning])
    far = float(f"{np.abs(edges).max():.1g}") * 2
    control = Control("threshold", "Your threshold", texts.THRESHOLD_HELP, 0.0, float, -far, far)
    threshold = panel.number(control, "threshold")
    usable = practised and threshold is not None and not panel.mistakes
    st.button(
        "Count it",
        key=panel.key("count"),
        type="primary",
        icon=":material/lock:",
        disabled=not usable,
        on_click=_see,
        args=(panel, auditing.to_json(), threshold),
    )
    results.show(panel, "scores", results.scores(auditing, progress, threshold, practice=True))


def _see(panel: Panel, text: str, threshold: float) -> None:
    blind = text not in st.session_state.get(panel.key(_SHOWN), ())
    st.session_state[panel.key(_SEEN)] = text, threshold, blind


def score(panel: Panel, auditing: Auditing, progress: Progress, threshold: float) -> None:
    """How well the visitor's threshold did, beside the attacker's; and another round."""
    outcome, symbol = verdict(auditing, progress), auditing.audit.claim.symbol
    if outcome is None:
        return
    mine, best = proven_at(auditing, progress, threshold), outcome.looks[-1].bound
    beside = "as much as" if mine == best else "more than" if mine > best else "less than"
    proves, fixed = "proves", "Both were fixed before these runs were seen."
    if not st.session_state[panel.key(_SEEN)][-1]:
        proves = "would prove"
        fixed = "But you had seen these runs before you placed it, so it proves nothing: take another round."
    proven, most = f"{symbol} ≥ {short_down(mine)}", f"{short(outcome.attack.threshold)}: {short_down(best)}"
    said = texts.PROVES.format(threshold=short(threshold), proves=proves, proven=proven, beside=beside, most=most)
    st.markdown(f"{said} {fixed}")
    if st.button(
        "Another round",
        key=panel.key("again"),
        icon=":material/replay:",
        help=texts.AGAIN_HELP,
        on_click=lambda: panel.write({"seed": auditing.seed + 1}),
    ):
        st.rerun()  # this part is drawn by itself, and the seed stands outside of it
