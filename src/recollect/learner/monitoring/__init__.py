"""Monitor a learner: prequential metrics, drift alarms and Prometheus text."""
