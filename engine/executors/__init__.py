"""Ways to run the model for a core: inside its process, or in worker processes."""
