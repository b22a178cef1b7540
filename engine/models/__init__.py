"""The models, each a small file over one decoder; importing this room imports none of them."""
