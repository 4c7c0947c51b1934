"""Targets of a learner: classes, sets of labels, or numbers (regression)."""
