"""Measurements of speed, each a command of its own."""
