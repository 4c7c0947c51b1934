"""Learn from a stream that keeps changing, without forgetting, in constant memory."""
