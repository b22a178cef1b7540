"""Between text and tokens: tokenizer, chat templates, incremental decoding, stop strings."""

from engine.text.chat import ChatTemplate as ChatTemplate
from engine.text.detokenizer import Detokenizer as Detokenizer
from engine.text.stops import StopScanner as StopScanner
from engine.text.stops import stop_ids as stop_ids
from engine.text.tokenizer import Tokenizer as Tokenizer
from engine.text.tokenizer import load_tokenizer as load_tokenizer
