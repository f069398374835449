"""Evaluation in the seats of an environment of several: who meets whom, results by seat, ratings, exploitability."""
