"""A learner: put a network behind a real stream."""

from recollect.learner.drift import Alarm
from recollect.learner.exposition import prometheus
from recollect.learner.learner import Learner
from recollect.learner.metrics import Metrics
from recollect.learner.optimising import Numbers
from recollect.learner.outliers import Outlier
from recollect.learner.pending import Labelled
from recollect.learner.remembered import Forgotten, Remembered

__all__ = [
    "Alarm", "Forgotten", "Labelled", "Learner", "Metrics", "Numbers", "Outlier", "Remembered",
    "prometheus",
]  # fmt: skip
