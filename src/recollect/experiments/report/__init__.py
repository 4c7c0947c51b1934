"""Build the report: one self-contained HTML page of all results."""

from recollect.experiments.report.build import build
from recollect.experiments.report.figures import drawn_in
from recollect.experiments.report.page import render

__all__ = ["build", "drawn_in", "render"]
