"""Frozen messages, the codec and the channels: all that the two halves know of each other."""
