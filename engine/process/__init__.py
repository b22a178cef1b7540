"""How every process of the engine starts, is named, is watched and ends."""
