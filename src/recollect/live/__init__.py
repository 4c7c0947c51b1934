"""Run a learner on a live stream: predict, learn, save, and resume exactly."""

from recollect.live.joined import LabelCounts
from recollect.live.signals import stop_at_signals
from recollect.live.stream import LiveStream

__all__ = ["LabelCounts", "LiveStream", "stop_at_signals"]
