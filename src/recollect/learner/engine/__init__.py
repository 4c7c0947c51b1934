"""The training engine of a learner: a fleet of one run whose steps can be undone."""
