"""What a visitor of the page sees first: the validation loss falling with every training."""

from dpviz.experiments.outcome import outcome
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization import figures, presets, texts
from dpviz.families.bayesian_optimization.algorithms import TRAININGS
from dpviz.numbers import short
from dpviz.plots.style import arm_styles
from dpviz.ui import explain
from dpviz.ui.experiment import hero, results
from dpviz.ui.experiment.run import Run

LOSS = "objective"


def picture(run: Run, diagnostics: bool) -> hero.Picture | None:
    """Loss against trainings; without diagnostics what each method releases, by step."""
    if run.job.trace is None:
        return None
    trace = run.job.trace.visible(diagnostics)
    if LOSS not in trace.metrics:
        return hero.curves(run, diagnostics, most=len(presets.METHODS))
    figure = figures.by_trainings(trace, LOSS, arm_styles(run.experiment.arms), height=hero.HEIGHT)
    metric = trace.metrics[LOSS]
    privacy = results.privacy(metric, trace, run.experiment)
    caption = f"{metric.label} after so many trainings. {explain.spread(run.experiment.replicates)} {privacy}"
    return hero.Picture(figure, f"{metric.label} against trainings, one line per method", caption)


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Where the best method ends, after how many trainings; and whether random search does as well."""
    told, found = hero.lowest(run, trace), outcome(trace)
    if told is None or found is None or found.metric.name != LOSS:
        return told
    ends = {found.best: found.end, **dict(found.others)}
    words = [told.sentence]
    trainings = {label: trace.last(label, TRAININGS.name) for label in ends}
    taken = [f"{label} {short(float(count.mean()))}" for label, count in trainings.items() if len(count)]
    words.append(f"Trainings of a run: {', '.join(taken)}.")
    if presets.GIBO in ends:
        searches = [label for label in (presets.RANDOM, presets.GLOBAL) if label in ends]
        words += [texts.beaten(ends[presets.GIBO], ends[label], label) for label in searches]
    return told._replace(sentence=" ".join(words))
