"""The torch back end: every operator in plain torch, weights in the formats of linear.py."""
