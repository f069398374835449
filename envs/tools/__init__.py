"""Environments in which a policy calls tools."""
