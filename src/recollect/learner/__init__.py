"""A learner: put a network behind a real stream."""

from recollect.learner.learner import Learner
from recollect.learner.optimising import Numbers
from recollect.learner.outliers import Outlier
from recollect.learner.record import Metrics
from recollect.learner.remembered import Forgotten, Remembered

__all__ = ["Forgotten", "Learner", "Metrics", "Numbers", "Outlier", "Remembered"]
