"""Estimators that parts are built from: functions of arrays and labels."""
