"""Methods: a `Recipe` names one part per slot; parts are built from estimators."""
