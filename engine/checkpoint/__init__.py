"""What a model file contains, without torch: spec, tensors as raw bytes, tokenizer data."""

from engine.checkpoint.checkpoint import Checkpoint as Checkpoint
from engine.checkpoint.checkpoint import open_checkpoint as open_checkpoint
from engine.checkpoint.encodings import Encoding as Encoding
from engine.checkpoint.locate import locate as locate
from engine.checkpoint.spec import ModelSpec as ModelSpec
from engine.checkpoint.tensors import TensorView as TensorView
