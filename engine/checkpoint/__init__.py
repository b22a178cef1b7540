"""What a model file contains, without torch: spec, tensors as raw bytes, tokenizer data.

Imports nothing here: the launcher needs `locate` alone, and should not wait for numpy.
"""
