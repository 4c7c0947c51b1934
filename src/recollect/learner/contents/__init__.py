"""The contents of a learner's memory: ids, listing, forgetting and resizing."""
