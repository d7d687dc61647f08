"""What the page says about the family: the methods in plain words, what is assumed, and where tool and paper differ."""

TITLE = "Accelerated gradient"
SUMMARY = (
    "Learn a model by repeated small steps, adding noise to each step for privacy. Momentum needs fewer steps, but also "
    "carries the noise along: see which method, how many steps, and which noise schedule a privacy budget buys best."
)

ABOUT = r"""
**The task.** Fit a classifier by minimising the average loss over $n$ rows,
$F(x)=\frac1n\sum_i\ln(1+e^{-z_iu_i^\top x})+\lambda\lVert x\rVert^2$, where $u_i$ are the features of row $i$ and
$z_i=\pm1$ is its class.

**Where privacy comes from.** Each step asks the data one question: what is the average gradient? Every row's part of it is
clipped to norm $C$, so replacing one row moves the average of $m$ rows by at most $2C/m$. Noise of a matching scale hides
that movement:
$\tilde g_t(w)=\frac1m\sum_{i\in B_t}\mathrm{clip}(\nabla\ell_i(w))+2\lambda w+\eta_t,\quad \eta_t\sim\mathrm{Laplace}(b_t)$
or $\mathcal N(0,\sigma_t^2)$ in every coordinate. The regulariser $2\lambda w$ does not depend on data and needs no noise.

**The trade-off.** The whole budget $\varepsilon$ is shared by the $T$ noisy gradients: $\sum_t\varepsilon_t=\varepsilon$.
More steps bring the model closer to the optimum, but each gradient gets noisier.

**The methods** (step size $\alpha=c/L$, $q=\sqrt{\mu\alpha}$):

| | update | momentum $\beta$ |
|---|---|---|
| DP-GD | $x_t=x_{t-1}-\alpha\tilde g_t(x_{t-1})$ | none |
| DP-HB (heavy ball) | $x_t=x_{t-1}-\alpha\tilde g_t(x_{t-1})+\beta(x_{t-1}-x_{t-2})$ | $\frac{1-q}{1+q}$, $(1-q)^2$, or your own |
| DP-NAG (Nesterov) | $w_t=x_{t-1}+\beta(x_{t-1}-x_{t-2}),\;x_t=w_t-\alpha\tilde g_t(w_t)$ | $\frac{1-q}{1+q}$ |
| DP-MASG (multi-stage) | as DP-NAG, in stages of shrinking step size, restarted at each | $\frac{1-q_t}{1+q_t}$ |

With $m<n$, DP-GD is DP-SGD. **-opt** spreads the budget to minimise the error bound (early noise is forgotten, late noise is
not, so the budget grows towards the end: $\varepsilon_t\propto a_t^{1/3}$) and takes the $T$ with the smallest bound;
**-T\*** keeps a uniform budget and only chooses $T$.

**The error bound.** With $V_t=F(x_t)-F^*+\frac\mu2\lVert v_t-x^*\rVert^2$ each step gives
$\mathbb E V_t\le(1-q)\,\mathbb E V_{t-1}+\frac\alpha2(1+\alpha L)\,\mathbb E\lVert w_t\rVert^2$, where $w_t$ is the whole
gradient noise (Theorems 4.1 and 4.3 of the paper with corrected constants). It holds for every data set within the declared
bounds, so real runs are usually 10 to 20 times better than the bound.

**Reference.** N. Kuru, Ş. İ. Birbil, M. Gürbüzbalaban, S. Yıldırım: *Differentially private accelerated optimization
algorithms*, SIAM Journal on Optimization 32 (2022).
"""

NOT_COVERED = (
    "Choosing hyper-parameters by trying them on the data is not accounted for here: every run on real data spends its "
    "budget again."
)

ERRATA = (
    (
        "Noise (E1)",
        "The paper's code draws Laplace noise that is smaller by √2 than its ε requires: runs labelled ε = 1 are 1.41-DP. "
        "Here the scale is the right one, so noise floors are about twice as high as in the paper's figures.",
    ),
    (
        "Heavy-ball rate (E2)",
        "The rate in Theorem 3.5 and in its code is that of Nesterov's method. For heavy ball the best momentum is "
        "(1-q)², not (1-q)/(1+q).",
    ),
    (
        "Error bound (E3, E4)",
        "Theorem 4.1 holds for the Lyapunov value V_t, not for the gap E_t: a factor 2 on the starting error. The code's "
        "constant for the noise is half of what the paper's own variance gives. The best T changes from 136 to 121.",
    ),
    (
        "Sampling (E8, E9)",
        "With batches the noise must be scaled by the batch size m, not by n; taken literally, equation (27) would spend "
        "ε of about 6,500 instead of 1. The batch-noise constant is right only because gradients are clipped.",
    ),
    (
        "Smoothness (E12)",
        "The code's L omits the factor ¼ of the logistic loss (steps four times too short) and is computed from the "
        "private data. Here L comes from declared bounds unless you choose otherwise, and says so.",
    ),
    (
        "Starting error (E13)",
        "The paper guesses E₀ = 10, but its experiment starts at 29. Here V₀ ≤ ln 2 holds for every data set at x₀ = 0.",
    ),
    (
        "Stages (E14)",
        "DP-MASG-opt never reaches its second stage in the published runs, and the stage lengths ignore the step size c. "
        "Both lengths can be chosen here.",
    ),
    (
        "Certificate (E16)",
        "Proposition 3.4 gives no guarantee for the heavy-ball runs shown in the paper: its matrix inequality has no "
        "solution at β = 0.88. For quadratics there is an exact curve instead.",
    ),
    (
        "Fair comparison (E18)",
        "The paper lets only the -opt methods choose T. Most of their advantage is the choice of T; compare with "
        "DP-NAG-T*.",
    ),
)

DECOMPOSITION = (
    "The error bound after all steps, split into what it consists of. What remains of the start shrinks with more steps, "
    "privacy noise grows with them, and batch noise comes from looking at m rows only."
)
