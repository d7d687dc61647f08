"""Budgets: the privacy guarantee that a run has to meet, in the currency in which it is stated; one class each."""

from dpviz.privacy.budgets.additive import GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.privacy.budgets.base import Budget, NoPrivacy, require
from dpviz.privacy.budgets.composed import ApproximateDP, TradeOff
