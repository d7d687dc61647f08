"""Noisy means with Poisson batches in the words of Opacus, JAX-Privacy and dp_accounting, and back.

Their guarantee is for a row added or removed, and for batches that every row joins by itself: other plans do not
translate.
"""

import math
import re

from dpviz.errors import UserError
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.noisy_means import NoisyMeans

# With commas between thousands alone; no part of a number with a decimal comma or other marks between thousands, of a
# range, of a sum, of a product or of a quotient. `(?>…)`: all of the number, as "2" of "2. - 1" would not be.
_NUMBER = (
    r"((?>(?:[0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    r"(?!\w|[.,'’][0-9]|[^\S\n][0-9]{3}\b|\s*[*/^%×·]|\s*[-+−–]\s*[0-9(.]|[^\S\n]*[-+−–]\s*\w)"
)
# Names of each setting, as regular expressions, in Opacus, JAX-Privacy, dp_accounting, TensorFlow Privacy and papers.
_NAMES = {
    "noise_multiplier": r"noise_multiplier|noise multiplier|GaussianDpEvent|sigma|σ",
    "sample_rate": r"sample_rate|sampling_prob(?:ability)?|PoissonSampledDpEvent|sample rate|q",
    "batch_size": r"(?:expected_)?batch_size|batch size",
    "rows": r"sample_size|dataset_size|num(?:ber_of)?_(?:examples|samples)|len\(dataset\)|n",
    "clip": r"max_grad_norm|l2_norm_clip|clip(?:ping)?_norm|clip",
    "steps": r"(?:(?:max|num|total)_)?(?:train(?:ing)?_)?steps|iterations|num_updates|T",
    "epochs": r"(?:(?:max|num|total)_)?(?:train(?:ing)?_)?epochs",
}
# A setting's name, then "=", ":" or "(", then perhaps the name of an argument in a call, then the number.
_SETTINGS = {
    name: re.compile(rf"(?<!\w)(?:{names})\s*(?:[=:(]\s*)+(?:\w+\s*=\s*)?{_NUMBER}") for name, names in _NAMES.items()
}
# A comma in the noise multiplier may be a decimal one, and a point in a count may be between thousands: one of the two
# readings would promise too much.
_AMBIGUOUS = {"noise_multiplier": ".*,.*"} | dict.fromkeys(("rows", "steps", "epochs"), r"[0-9]{1,3}\.[0-9]{3}")
# The count of an event whose own arguments hold one further call, not that of a later call in the text.
_COMPOSED = re.compile(
    rf"SelfComposedDpEvent\([^()]*\([^()]*\([^()]*\)[^()]*\)\s*,\s*(?:count\s*=\s*)?{_NUMBER}\s*,?\s*\)"
)


def to_dpsgd(means: NoisyMeans, budget: Budget) -> str:
    """Return Python lines with the settings of the same training in Opacus, JAX-Privacy and dp_accounting.

    Raises UserError for means that do not translate, and for a budget that no noise meets.
    """
    scale, rate = means.noise_scale(budget), means.batch_size / means.rows
    if means.sampling != "poisson" or means.noise != "gaussian":
        raise UserError(
            "Opacus and JAX-Privacy count Gaussian noise on Poisson batches. Choose both in the sidebar; plans with "
            "other batches or noise do not translate.",
            title="No such training there",
        )
    if means.rows_per_person > 1:
        raise UserError("They protect one row, not all rows of a person.", title="Not for several rows of a person")
    return f"""\
# {budget.describe()} for one row added or removed, with Poisson batches, by the accountants of dpviz
noise_multiplier = {scale * means.batch_size / means.clip!r}  # noise in the sum of a batch, divided by max_grad_norm
max_grad_norm = {means.clip!r}
sample_rate = {rate!r}  # {means.batch_size:,} of {means.rows:,} rows, on average
steps = {means.iterations}  # {means.iterations * rate:.4g} epochs

# Opacus: give a DataLoader with batch_size={means.batch_size}; it draws Poisson batches from it
PrivacyEngine().make_private(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    noise_multiplier=noise_multiplier,
    max_grad_norm=max_grad_norm,
    poisson_sampling=True,
)

# JAX-Privacy
jax_privacy.accounting.dpsgd_event(noise_multiplier, steps, sampling_prob=sample_rate)

# dp_accounting
dp_accounting.SelfComposedDpEvent(
    dp_accounting.PoissonSampledDpEvent(sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier)), steps
)
"""


def from_dpsgd(text: str, rows: int = 10_000) -> tuple[NoisyMeans, float]:
    """Return the noisy means, and the scale of their noise, of a training whose settings `text` names.

    text : settings such as "noise_multiplier=1.1, sample_rate=0.01, epochs=30", the arguments of a call, or an event of
        dp_accounting. rows : the number of rows, if the text does not say it.
    Raises UserError where settings are missing or impossible.
    """
    text = re.sub(r"[\"'](?=\s*:)", "", text)  # names in quotes, as in JSON
    if text.count("SelfComposedDpEvent(") > 1:
        raise UserError("The text has several trainings: give one.", title="Which one counts?")
    settings: dict[str, float] = {}
    for name, pattern in _SETTINGS.items():
        matches = [*pattern.finditer(text), *(_COMPOSED.finditer(text) if name == "steps" else ())]
        numbers = {float(re.sub("[_,]", "", match[1])) for match in matches}
        if len(numbers) > 1:
            raise UserError(f"The text has several numbers for {name}: give one training.", title="Which one counts?")
        if numbers and not any(re.fullmatch(_AMBIGUOUS.get(name, ""), match[1]) for match in matches):
            (settings[name],) = numbers
    batch_size = settings.get("batch_size")
    if "rows" not in settings and re.search(rf"(?<!\w)(?:{_NAMES['rows']})\s*[=:]", text):
        settings.pop("batch_size", None)  # without the text's number of rows, it gives no rate
    n = int(min(settings.get("rows", rows), 1e18))  # `int` takes no infinity, which is refused below
    # 0 where the text has no such setting. A table without rows is refused below, by `NoisyMeans`.
    rate = settings.get("sample_rate", settings.get("batch_size", 0.0) / max(n, 1))
    steps_of_epochs = settings.get("epochs", 0.0) / rate if rate else 0.0
    steps = settings.get("steps", steps_of_epochs)
    is_batch_stated = {"rows", "batch_size"} <= settings.keys() and n > 0
    rate_of_batch = settings["batch_size"] / n if is_batch_stated else rate
    # Numbers of steps may differ by one in each epoch, as its last batch may be left out.
    step_difference = abs(steps - steps_of_epochs) - settings["epochs"] if rate and "epochs" in settings else 0.0
    if abs(rate - rate_of_batch) > 0.01 * rate or step_difference > 1:
        raise UserError("Batch size, rate, steps and epochs contradict each other.", title="Which one counts?")
    if math.inf in (*settings.values(), steps, rate * n):  # beyond the range of floats, such as 1e999
        raise UserError("A number in the text is too large.", title="Settings are impossible")
    # Rounded up, as their cost must not be more than is stated; but not for a rounding error.
    steps = math.ceil(steps * (1 - 1e-9))
    rate = math.ceil(rate * n * (1 - 1e-9)) / n if n else rate
    needed = {
        "noise_multiplier": settings.get("noise_multiplier"),
        "sample_rate (or batch_size and dataset_size)": rate,
        "steps (or epochs)": steps,
    }
    missing = [words for words, value in needed.items() if not value]
    if missing:
        raise UserError(f"The text lacks {', '.join(missing)}.", title="Settings are missing")
    if batch_size is None:
        batch_size = rate * n if "rows" in settings else math.inf  # without either, it is not known
    microbatches = re.search(rf"num_microbatches\s*[=:]\s*{_NUMBER}", text)
    # A row may turn the whole mean of its microbatch.
    if microbatches and float(re.sub("[_,]", "", microbatches[1])) < round(batch_size, 6):
        raise UserError(
            "Microbatches of several rows double the sensitivity. Give half the noise multiplier, and leave out "
            "num_microbatches.",
            title="Microbatches",
        )
    if re.search(r"poisson_sampling\s*[=:]\s*[Ff]alse", text):
        raise UserError("The costs here hold for Poisson batches only.", title="Not Poisson batches")
    clip = settings.get("clip", 1.0)
    means = NoisyMeans(sampling="poisson", noise="gaussian", rows=n, iterations=steps, batch_fraction=rate, clip=clip)
    return means, settings["noise_multiplier"] * means.sensitivity  # clip/batch size, by which `to_dpsgd` divides
