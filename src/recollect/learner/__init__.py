"""Online learning: train a network on a live data stream with a `Learner`."""

from recollect.learner.contents.remembered import Forgotten, Remembered
from recollect.learner.inputs.outliers import Outlier
from recollect.learner.late.pending import Labelled
from recollect.learner.learner import Learner
from recollect.learner.monitoring.drift import Alarm
from recollect.learner.monitoring.metrics import Metrics
from recollect.learner.monitoring.prometheus import prometheus
from recollect.learner.optimising import Numbers

__all__ = [
    "Alarm", "Forgotten", "Labelled", "Learner", "Metrics", "Numbers", "Outlier", "Remembered",
    "prometheus",
]  # fmt: skip
