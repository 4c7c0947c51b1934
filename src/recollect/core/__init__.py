"""The model of a fleet: networks, weights, gradients, losses and random numbers."""
