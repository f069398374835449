"""Several processes that train one model (`--trainers`), behind a learner in the run that gives them orders."""
