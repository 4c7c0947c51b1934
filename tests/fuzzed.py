"""How the fuzz tests try their inputs: the same ones every time, however long it takes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["fuzzed"]

fuzzed = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip
