"""A learner on a live stream: predicts, learns, saves, and resumes exactly."""

from recollect.live.joined import LabelCounts
from recollect.live.signals import stop_at_signals
from recollect.live.stream import LiveStream

__all__ = ["LabelCounts", "LiveStream", "stop_at_signals"]
