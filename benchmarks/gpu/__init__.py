"""What Turnwise makes of one GPU, piece by piece; see `benchmarks.gpu.__main__`."""
