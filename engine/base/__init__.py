"""Errors, configuration, environment, ids, clock, log and metrics: what every other room may know."""
