"""How byte-level BPE tokenizers cut text before they merge: one entry per name of GGUF's `tokenizer.ggml.pre`.

The rules are those of the models' own tokenizer.json files; llama.cpp (llama-vocab.cpp) is the register of the names.
"""

from __future__ import annotations

from typing import NamedTuple

from tokenizers import Regex, normalizers, pre_tokenizers

DEFAULT = "default"


class Splitting(NamedTuple):
    """Each pattern in turn cuts what the ones before it left; `uses_gpt2` ends with GPT-2's own pattern.

    ignore_merges: a whole word that is a token is that token, whatever the merges say. adds_bos: where the file
    does not say. nfc: text is composed (Unicode NFC) first.
    """

    patterns: tuple[str, ...] = ()
    uses_gpt2: bool = False
    ignore_merges: bool = False
    adds_bos: bool = False
    nfc: bool = False

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        cuts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.uses_gpt2)
        return pre_tokenizers.Sequence([*cuts, last])

    def normalizer(self) -> normalizers.Normalizer | None:
        return normalizers.NFC() if self.nfc else None


def find_splitting(name: str) -> Splitting | None:
    """None for a name whose rule is not known: a wrong rule gives wrong tokens without a word."""
    return SPLITTINGS.get(name)


ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SIGNS_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"


def by_case(suffix: str) -> str:
    """Words cut where lower case turns to upper, each with `suffix`."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{UPPER}*{LOWER}+{suffix}|{lead}{UPPER}+{LOWER}*{suffix}"


CL100K = rf"{ENGLISH}|{WORD}|\p{{N}}{{1,3}}|{SIGNS}|{SPACES}"
QWEN2 = rf"{ENGLISH}|{WORD}|\p{{N}}|{SIGNS}|{SPACES}"
QWEN35 = rf"{ENGLISH}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"
O200K = rf"{by_case(ENGLISH + '?')}|\p{{N}}{{1,3}}|{SIGNS_AND_SLASHES}|{SPACES}"
TEKKEN = rf"{by_case('')}|\p{{N}}|{SIGNS_AND_SLASHES}|{SPACES}"
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}",
)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")

GPT2_NAMES = (DEFAULT, "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "exaone4")
DIGIT_NAMES = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2")
LLAMA3_NAMES = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2")
CL100K_NAMES = ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
QWEN2_NAMES = ("deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open", "kormo")

SPLITTINGS: dict[str, Splitting] = {
    **dict.fromkeys(GPT2_NAMES, Splitting(uses_gpt2=True)),
    **dict.fromkeys(DIGIT_NAMES, Splitting((r"\p{N}",), uses_gpt2=True)),
    **dict.fromkeys(LLAMA3_NAMES, Splitting((CL100K,), ignore_merges=True, adds_bos=True)),
    **dict.fromkeys(CL100K_NAMES, Splitting((CL100K,))),
    "qwen2": Splitting((QWEN2,), nfc=True),
    **dict.fromkeys(QWEN2_NAMES, Splitting((QWEN2,))),
    "qwen35": Splitting((QWEN35,), nfc=True),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), Splitting(DEEPSEEK3)),
    "deepseek-coder": Splitting(DEEPSEEK_CODER),
    "tekken": Splitting((TEKKEN,), ignore_merges=True, adds_bos=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), Splitting((O200K,))),
}
