"""A learner: put a network behind a real stream."""

from recollect.learner.learner import Learner
from recollect.learner.optimising import Numbers
from recollect.learner.outliers import Outlier
from recollect.learner.pending import Labelled
from recollect.learner.record import Metrics

__all__ = ["Labelled", "Learner", "Metrics", "Numbers", "Outlier"]
