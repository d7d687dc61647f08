"""The words of the audit page."""

from dpviz.numbers import short
from dpviz.privacy.verification.implementation import Kind


def chance(p: float) -> str:
    """A p-value in a table."""
    return "impossible" if p == 0 else "1" if p >= 1 else short(p, 2)


TITLE = "Check the guarantee"
ABOUT = (
    "A guarantee speaks of the worst case. Here an attacker plays that case thousands of times: two neighbouring data "
    "sets, many runs on each, and a guess after every run. If the guesses are better than the claim allows, the claim "
    "is wrong. Beside the attack, the releases themselves are tested: noise, choices and batches must be as declared."
)
CANARIES = "An ordinary row proves less than the worst case, and the guarantee is about the worst case."
UNKNOWN = "For this method no pair of data sets is known to be the worst: another one may prove more."
TESTS: dict[Kind, str] = {
    "scale": "Size of the noise, of every release and every entry",
    "shape": "Distribution of the noise",
    "dependence": "Independence of steps, entries and runs: signs of products",
    "repeats": "The same noise twice, anywhere",
    "batches": "Rows of random batches: how often, and in two steps or runs",
    "choices": "Frequencies of choices",
    "sensitivity": "How far one row moves each query",
    "plan": "Declared noise beside what the plan shows and pays for",
    "values": "Values beside those of the batch that was drawn",
}
NONE = "No attack yet. Press Run."
LIMITS = (
    (
        "It can refute, never prove",
        "What is proven is a lower bound: the true number is at least as large. A bound far below the claim can mean "
        "few runs, a weak attack, or a method that keeps more than it promises. That no violation was found does not "
        "make the claim true.",
    ),
    (
        "One case, a tiny one",
        "Two data sets, one canary, few rows and steps. With an ordinary row as the canary, less is proven than with "
        "the worst one, which the guarantee is about. The code is that of the method's page, but a fault that shows "
        "on other data or in longer runs is not seen here.",
    ),
    (
        "The attacker knows more than a real one",
        "Both data sets, the method, and all that each run releases. From these follows the score of a run: the "
        "logarithm of how much more likely its releases are on D than on D', under the declared noise. If the noise is "
        "as declared, no other test of the same runs on this pair is better.",
    ),
    (
        "Tests of the implementation are another matter",
        "The attack takes the declared noise for granted. So the releases of all runs are tested by themselves: is the "
        "noise as large as declared, of that distribution, fresh in every step and run; are batches and choices random "
        "as declared; does one row move a query no further than declared? A fault there means that the plan does not "
        "describe what was run, whatever follows for the claim. Values are not recomputed: a wrong query that one row "
        "moves no further than declared is not seen.",
    ),
    (
        "Practice first, then what counts",
        "A quarter of the runs is for practice: on them the attacker chooses a threshold. The bound comes from the "
        "rest, of which nobody has seen any by then.",
    ),
    (
        "Looks are announced",
        "The number of runs is fixed before, and the bound is told at ten looks on the way, each with a tenth of the "
        "allowed error: together they hold with 95 %. Who tries one seed after the other until one of them flags "
        "something will find a violation of a sound method, too.",
    ),
)
NEEDED_HELP = "How many runs an audit with these settings takes to flag noise that is too small."
NEEDED = (
    "Runs on each data set at which about half of all such audits flag noise of so many times its declared size. The "
    "attack: on a pair that is as bad as the noise allows, with the rates that are expected; on a milder pair it needs "
    "more. The tests: with one number of one release in each run; more numbers need fewer runs."
)
ONE_HELP = "Many canaries in one run, where many runs cost too much."
ONE = (
    "Thousands of runs are out of reach where one takes a day. In a single run of one step of DP-GD, 400 rows are "
    "canaries: each is one of two rows, by the toss of a coin of its own. From what the run releases, the attacker "
    "guesses the 200 coins that are clearest. Under pure ε each guess is right with a chance of at most e^ε/(1 + e^ε), "
    "so that many right guesses prove a lower bound on ε, with 95 % confidence."
)
ONE_BROKEN = "The standard deviation of Laplace noise is taken for its scale."
ONE_REFUTED = "One run proves ε ≥ {bound}, more than is claimed, with 95 % confidence."
ONE_HOLDS = (
    "One run proves ε ≥ {bound}, with 95 % confidence. One run shows less than thousands do: smaller faults go unseen, "
    "and {guesses} right guesses of {guesses} would prove no more than ε ≥ {most}."
)
ONE_CANNOT = "So no run with so many canaries can refute this claim."
GUESS = (
    "Below are the scores of the practice runs. A run scores high where its releases are more likely on D than on D'. "
    "Place your threshold: you say D for every run that scores at least as much. Then see how it does on the runs that "
    "count, beside the attacker's."
)
