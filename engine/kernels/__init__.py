"""What a step computes with: the batch record, and the kernels of each back end behind one port."""
