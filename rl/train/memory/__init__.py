"""What the memory of a training run is estimated from."""
