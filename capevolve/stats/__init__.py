"""Estimators and tests, as pure functions. What is undefined is None, never 0 and never NaN.

Rewards are in [0, 1]; only measured trials enter. One-sided p-values test "the candidate is better".
"""

from capevolve.stats.attainable import smallest_p
from capevolve.stats.betting import betting_e_value
from capevolve.stats.bootstrap import bca_bootstrap, percentile_bootstrap
from capevolve.stats.distributions import binomial_cdf, normal_cdf, normal_quantile, t_cdf, t_quantile
from capevolve.stats.fallback import fallback_levels
from capevolve.stats.fisher import fisher_exact
from capevolve.stats.intervals import Interval, clopper_pearson, t_interval, wilson
from capevolve.stats.moments import (
    TOLERANCE,
    MeanEstimate,
    between_variance,
    cluster_robust,
    combined_stderr,
    exceeds,
    fixed_stderr,
    mean_with_stderr,
    task_stats,
)
from capevolve.stats.paired import Comparison, TaskPair, compare
from capevolve.stats.passk import pass_at_k, pass_hat_k
from capevolve.stats.permutation import PValue, sign_flip, within_task_permutation
from capevolve.stats.power import (
    PlanningVariance,
    minimal_effect,
    planning_se,
    planning_variance,
    t_minimal_effect,
    t_power,
    trials_needed,
)
from capevolve.stats.shrinkage import Shrinkage, james_stein
from capevolve.stats.splitmix import splitmix64
from capevolve.stats.summary import estimate_mean, summarize

__all__ = [
    "TOLERANCE",
    "Comparison",
    "Interval",
    "MeanEstimate",
    "PValue",
    "PlanningVariance",
    "Shrinkage",
    "TaskPair",
    "bca_bootstrap",
    "betting_e_value",
    "between_variance",
    "binomial_cdf",
    "clopper_pearson",
    "cluster_robust",
    "combined_stderr",
    "compare",
    "estimate_mean",
    "exceeds",
    "fallback_levels",
    "fisher_exact",
    "fixed_stderr",
    "james_stein",
    "mean_with_stderr",
    "minimal_effect",
    "normal_cdf",
    "normal_quantile",
    "pass_at_k",
    "pass_hat_k",
    "percentile_bootstrap",
    "planning_se",
    "planning_variance",
    "sign_flip",
    "smallest_p",
    "splitmix64",
    "summarize",
    "t_cdf",
    "t_interval",
    "t_minimal_effect",
    "t_power",
    "t_quantile",
    "task_stats",
    "trials_needed",
    "wilson",
    "within_task_permutation",
]
