"""Budgets: the privacy guarantee that is asked for, in the currency in which it is asked; one class per currency."""

from dpviz.privacy.budgets.additive import GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.privacy.budgets.base import Budget, NoPrivacy, require
from dpviz.privacy.budgets.composed import ApproximateDP, TradeOff
