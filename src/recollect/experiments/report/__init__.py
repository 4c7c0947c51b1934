"""The report: everything that was measured, as one page that opens from disk."""

from recollect.experiments.report.build import build
from recollect.experiments.report.figures import drawn_in
from recollect.experiments.report.page import render, write

__all__ = ["build", "drawn_in", "render", "write"]
