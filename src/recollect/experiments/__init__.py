"""Experiments: the paper as data, runs by name, and tables that compare."""

from recollect.experiments.comparison import Comparison, compare
from recollect.experiments.results import Mean, Results, Summary
from recollect.experiments.run import run
from recollect.experiments.search import Search, search

__all__ = ["Comparison", "Mean", "Results", "Search", "Summary", "compare", "run", "search"]
