"""Speed benchmarks; each module is a command."""
