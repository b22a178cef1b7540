"""Regenerates tests/unit/checkpoint/golden with the `gguf` package (0.19) as the reference.

Run with a Python that has `gguf` and numpy: python tests/golden/make_gguf_golden.py SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

FOLDER = Path(__file__).parents[1] / "unit" / "checkpoint" / "golden"
ROWS = 3
ENCODED = ("BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")  # the ones gguf can write
K_SCALES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # byte offsets of the float16 numbers of a block


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FOLDER / "blocks.npz", **blocks())
    write_file(FOLDER / "small.gguf")
    hashes = default_model(Path(sys.argv[1]))
    (FOLDER / "default_model.json").write_text(json.dumps(hashes, indent=1) + "\n", "utf-8")


def blocks() -> dict[str, np.ndarray]:
    """NAME.values -> NAME.bytes by the reference encoder, NAME.bytes -> NAME.decoded by the reference decoder."""
    random = np.random.default_rng(20_240_914)
    values = random.standard_normal((ROWS, 64)).astype(np.float32)
    values[0, :32], values[1, 3] = 0.0, 37.5  # a block of zeros; an outlier
    found: dict[str, np.ndarray] = {"values": values}
    for name in ENCODED:
        kind = gguf.GGMLQuantizationType[name]
        found[f"{name}.bytes"] = quantize(values, kind).view(np.uint8)
        found[f"{name}.decoded"] = dequantize(quantize(values, kind), kind)
    for name, offsets in K_SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        raw = random.integers(0, 256, (ROWS, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
        for offset in offsets:
            raw[:, offset : offset + 2] = random.standard_normal((ROWS, 1)).astype("<f2").view(np.uint8)
        found[f"{name}.bytes"] = raw
        found[f"{name}.decoded"] = dequantize(raw, kind)
    return found


def write_file(path: Path) -> None:
    """A file by the reference writer with one value of every kind, and what it holds as JSON beside it."""
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.LITTLE)
    writer.add_custom_alignment(64)
    scalars = {
        "uint8": 200, "int8": -100, "uint16": 60_000, "int16": -30_000, "uint32": 4_000_000_000, "int32": -2**31,
        "uint64": 2**63, "int64": -(2**62), "float32": 0.5, "float64": 0.1, "bool": True, "string": "Ġgrün 🐇",
    }  # fmt: skip
    for kind, value in scalars.items():
        getattr(writer, f"add_{kind}")(f"test.{kind}", value)
    arrays = {"strings": ["a", "", "Ġt he"], "ints": [1, -2, 3], "floats": [0.25, -1.5], "flags": [True, False]}
    for name, items in arrays.items():
        writer.add_array(f"test.{name}", items)

    random = np.random.default_rng(7)
    tensors = {"plain": random.standard_normal((3, 5)).astype(np.float32), "half": np.arange(6, dtype=np.float16)}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    packed = quantize(random.standard_normal((2, 3, 32)).astype(np.float32), gguf.GGMLQuantizationType.Q4_1)
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    expected = {
        "metadata": {f"test.{k}": v for k, v in (scalars | arrays).items()},
        "tensors": {n: [list(t.shape), t.dtype.str, t.tobytes().hex()] for n, t in tensors.items()}
        | {"packed": [[2, 3, 32], "Q4_1", packed.tobytes().hex()]},
    }
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")


def default_model(path: Path) -> dict[str, str]:
    """SHA-256 of a few tensors as float32, queries and keys in the order of the original Hugging Face checkpoint."""
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    for layer in (0, 29):
        parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "ffn_down": "mlp.down_proj"}
        names |= {f"blk.{layer}.{a}.weight": f"model.layers.{layer}.{b}.weight" for a, b in parts.items()}
    hashes = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.name in names:
            values = dequantize(tensor.data, tensor.tensor_type)
            heads = {"attn_q": 9, "attn_k": 3}.get(tensor.name.split(".")[-2])
            if heads:  # undo the converter's reshape(heads, 2, half, columns).swapaxes(1, 2)
                values = values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
            hashes[names[tensor.name]] = hashlib.sha256(np.ascontiguousarray(values, "<f4").tobytes()).hexdigest()
    return hashes


if __name__ == "__main__":
    main()
