"""Experiments: the paper as data, runs by name, and tables that compare."""

from recollect.experiments.results import Mean, Results, Summary
from recollect.experiments.run import run

__all__ = ["Mean", "Results", "Summary", "run"]
