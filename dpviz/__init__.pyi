# What type checkers know of the public names: a test compares it with `__init__.py`.

from dpviz.audits.audit import Audit as Audit
from dpviz.datasets import read_table as read_table
from dpviz.experiments.experiment import Arm as Arm
from dpviz.experiments.experiment import Experiment as Experiment
from dpviz.experiments.plan import Plan as Plan
from dpviz.experiments.trace import Trace as Trace
from dpviz.families import presets as presets
from dpviz.families.accelerated import GradientDescent as GradientDescent
from dpviz.families.accelerated import HeavyBall as HeavyBall
from dpviz.families.accelerated import MultistageNesterov as MultistageNesterov
from dpviz.families.accelerated import Nesterov as Nesterov
from dpviz.families.bayesian_optimization import Gibo as Gibo
from dpviz.families.bayesian_optimization import GlobalSearch as GlobalSearch
from dpviz.families.bayesian_optimization import RandomSearch as RandomSearch
from dpviz.families.mirror_descent import FictitiousPlay as FictitiousPlay
from dpviz.families.mirror_descent import FrankWolfe as FrankWolfe
from dpviz.families.mirror_descent import GaussianMirrorDescent as GaussianMirrorDescent
from dpviz.families.mirror_descent import SyntheticData as SyntheticData
from dpviz.families.mirror_descent import TwoDraws as TwoDraws
from dpviz.families.mirror_descent import VertexSampling as VertexSampling
from dpviz.families.second_order import LineSearch as LineSearch
from dpviz.families.second_order import MiniBatch as MiniBatch
from dpviz.families.second_order import PerturbedDescent as PerturbedDescent
from dpviz.families.second_order import ShortStep as ShortStep
from dpviz.families.second_order import TrustRegion as TrustRegion
from dpviz.families.zeroth_order import DirectionalDescent as DirectionalDescent
from dpviz.families.zeroth_order import Naive as Naive
from dpviz.families.zeroth_order import VarianceReduced as VarianceReduced
from dpviz.privacy.accounting.accountants import tightest as tightest
from dpviz.privacy.budgets import ApproximateDP as ApproximateDP
from dpviz.privacy.budgets import GaussianDP as GaussianDP
from dpviz.privacy.budgets import NoPrivacy as NoPrivacy
from dpviz.privacy.budgets import PureDP as PureDP
from dpviz.privacy.budgets import RenyiDP as RenyiDP
from dpviz.privacy.budgets import TradeOff as TradeOff
from dpviz.privacy.budgets import ZeroConcentratedDP as ZeroConcentratedDP
from dpviz.privacy.calibration import calibrate_gaussian as calibrate_gaussian
from dpviz.privacy.calibration import calibrate_laplace as calibrate_laplace
from dpviz.privacy.conversions import convert as convert
from dpviz.privacy.statistics.noisy_means import NoisyMeans as NoisyMeans
from dpviz.problems.games.group_loss import GroupLoss as GroupLoss
from dpviz.problems.games.matrix_games import MatrixGame as MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame as QuadraticGame
from dpviz.problems.linear.linear_models import LogisticRegression as LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic as Quadratic
from dpviz.problems.linear.regression import HuberRegression as HuberRegression
from dpviz.problems.linear.regression import LeastSquares as LeastSquares
from dpviz.problems.nonconvex import LogisticTukey as LogisticTukey
from dpviz.problems.nonconvex import RobustComponent as RobustComponent
from dpviz.problems.tuning.model_tuning import LengthScales as LengthScales
from dpviz.problems.values.black_box import PhaseRetrieval as PhaseRetrieval
from dpviz.sweeps.sweep import Sweep as Sweep

__version__: str
__all__: list[str]
