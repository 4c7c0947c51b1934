"""Saving a learner: snapshots, checkpoint folders, versions and folder locks."""
