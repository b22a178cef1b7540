"""The parts of a decoder, over the kernel port: what is multiplied with what. Numbers are made in kernels."""
