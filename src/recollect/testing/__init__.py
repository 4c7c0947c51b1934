"""Conformance checks for methods, streams and memory policies, both yours and the library's."""

from recollect.testing.check import Check, ConformanceError
from recollect.testing.memory import check_memory, memory_checks
from recollect.testing.method import check_method, method_checks
from recollect.testing.stream import check_stream, stream_checks

__all__ = [
    "Check",
    "ConformanceError",
    "check_memory",
    "check_method",
    "check_stream",
    "memory_checks",
    "method_checks",
    "stream_checks",
]
