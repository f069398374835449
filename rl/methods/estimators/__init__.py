"""Estimators that parts are built from: functions of arrays and labels, whose shapes are checked where they enter."""
