"""Run, search and compare experiments on benchmarks, and reproduce the paper's tables."""

from recollect.experiments.comparison import Comparison, compare
from recollect.experiments.results import Mean, Results, Summary
from recollect.experiments.run import run
from recollect.experiments.search import Search, search

__all__ = ["Comparison", "Mean", "Results", "Search", "Summary", "compare", "run", "search"]
