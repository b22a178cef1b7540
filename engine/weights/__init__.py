"""Checkpoint views become packed weights."""
