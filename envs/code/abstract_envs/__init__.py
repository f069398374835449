"""Abstract environments: one graded submission, a submission that must pass unit tests, one command per turn."""
