"""From a row of logits to a token: a pure function of (logits, Sampling, the tokens so far, seed, position)."""
