"""One file a room. Lower is better everywhere; each benchmark says its unit and its version."""
