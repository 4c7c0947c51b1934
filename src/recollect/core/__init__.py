"""The fleet's weights, its randomness and its losses: what every other room stands on."""
