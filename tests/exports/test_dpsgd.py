"""Noisy means in the words of other libraries, and back."""

import pytest

from dpviz.errors import UserError
from dpviz.exports.dpsgd import from_dpsgd, to_dpsgd
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.statistics import noisy_means
from dpviz.privacy.statistics.noisy_means import NoisyMeans

MEANS = NoisyMeans(sampling="poisson", noise="gaussian", batch_fraction=0.01, iterations=1000, clip=1.5)
BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)


def test_what_is_written_is_read_again() -> None:
    """The same means and the same noise, whose cost is the budget."""
    theirs, scale = from_dpsgd(to_dpsgd(MEANS, BUDGET))
    assert theirs == MEANS and scale == pytest.approx(MEANS.noise_scale(BUDGET), rel=1e-12)
    epsilon = noisy_means.guarantee(theirs.events_of_noise(scale), 1e-6).values["epsilon_at_delta"]
    assert epsilon == pytest.approx(1.0, rel=3e-4)
    compile(to_dpsgd(MEANS, BUDGET), "", "exec")


@pytest.mark.parametrize(
    "text",
    [
        "noise_multiplier=2.0, sample_rate=.01, steps=1000",
        "sigma = 2, q = 0.01, T = 1_000",
        "make_private(noise_multiplier=2., max_grad_norm=1) batch_size=100, sample_size=10_000, epochs=10",
        "dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(0.01, "
        "dp_accounting.GaussianDpEvent(2.0)), 1000)\nlog(f(x), 7)",
        "dpsgd_event(noise_multiplier=2, iterations=1000, sampling_prob=1e-2)",
        '- "max_train_steps": 1000\n- sigma: 2.0\n- q: 0.01',
    ],
)
def test_the_settings_of_a_training_cost_what_others_compute(text: str) -> None:
    """σ/C = 2, q = 0.01, T = 1000: 0.7214 at δ = 10⁻⁶, by dp_accounting's loss distributions."""
    theirs, scale = from_dpsgd(text)
    assert scale * theirs.batch_size / theirs.clip == pytest.approx(2.0) and theirs.iterations == 1000
    epsilon = noisy_means.guarantee(theirs.events_of_noise(scale), 1e-6).values["epsilon_at_delta"]
    assert epsilon == pytest.approx(0.7214, rel=2e-3)


def test_a_rate_and_steps_that_are_no_whole_numbers_here_are_rounded_up() -> None:
    """Of 10,000 rows a rate of 0.00014 is 1.4 in a batch, and half an epoch of it 3571.4 steps."""
    theirs, _ = from_dpsgd("noise_multiplier=2, sample_rate=0.00014, epochs=0.5")
    assert (theirs.batch_size, theirs.iterations) == (2, 3572)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "lacks noise_multiplier, sample_rate"),
        ("noise_multiplier=1.1, steps=10", "lacks sample_rate"),
        ("noise_multiplier=1,1, sample_rate=256/6000, steps=1e1*9", r"noise_multiplier, sample_rate \(.*\), steps"),
        ("noise_multiplier=1,123, sample_rate=0.1, steps=1", "lacks noise_multiplier"),
        ("noise_multiplier=1.1, sample_rate=0.1", "lacks steps"),
        ("noise_multiplier=2-1, batch_size=9, n=5k, steps=10 000", r"noise_multiplier, sample_rate \(.*\), steps"),
        (
            "noise_multiplier=2 - 1, batch_size=9, n=1000 \u22121, steps=1000 + 500",
            r"multiplier, sample_rate \(.*\), steps",
        ),
        ("noise_multiplier=2. - 1, sample_rate=.1, steps=1000+warmup", "lacks noise_multiplier, steps"),
        ("noise_multiplier=1,1000, sample_rate=.1, steps=1.000", "lacks noise_multiplier, steps"),
        ("SelfComposedDpEvent(PoissonSampledDpEvent(.1, GaussianDpEvent(1.1)), 1.000)", "lacks steps"),
        (
            "noise_multiplier=1·5, sample_rate=.1 × 2, steps=1000 -1",
            r"lacks noise_multiplier, sample_rate \(.*\), steps",
        ),
        ("noise_multiplier=1.1, sample_rate=7, steps=10", "between"),
        ("noise_multiplier=0, sample_rate=0.1, steps=10", "lacks noise_multiplier"),
        ("noise_multiplier=1e999, sample_rate=0.1, steps=1e12", "too large"),
        ("noise_multiplier=1, sample_rate=0.1, epochs=1e999", "too large"),
        ("noise_multiplier=1, batch_size=3, dataset_size=0, steps=10", "between"),
        ("noise_multiplier=1, batch_size=9, num_microbatches=3, n=90, steps=10", "double the sensitivity"),
        ("noise_multiplier=1, sample_rate=0.1, steps=10, poisson_sampling: false", "Poisson batches only"),
        ("noise_multiplier=1, sample_rate=0.01, batch_size=600, n=6000, steps=10", "contradict"),
        ("noise_multiplier=1, sample_rate=0.01, total_steps=1000, max_epochs=30", "contradict"),
        ("GaussianDpEvent(2.0), sample_rate=0.1, steps=10, then noise_multiplier=1.0", "several numbers for noise_mul"),
    ],
)
def test_what_is_missing_is_a_sentence(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_dpsgd(text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampling": "wor"}, "Poisson"),
        ({"sampling": "all"}, "Poisson"),
        ({"noise": "laplace"}, "Gaussian"),
        ({"rows_per_person": 2}, "protect one row"),
    ],
)
def test_other_plans_do_not_translate(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        to_dpsgd(MEANS.replaced(**changes), BUDGET)
