"""Delayed labels: predictions that wait for their labels, and the journal on disk."""
