from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.base.errors import ConfigError
from engine.kernels.cpu.kernels import TorchKernels
from engine.kernels.cpu.linear import PlainFormat
from engine.kernels.machine import Machine
from engine.kernels.select import Candidate, candidates, device_of, disagreement, first_working, select_kernels
from tests.unit.kernels.backends import CPU, SHAPE

OLD_X86 = Machine(has_bfloat16_units=False, has_fbgemm=True, has_cuda=False)
NEW_X86 = Machine(has_bfloat16_units=True, has_fbgemm=True, has_cuda=False)
OTHER = Machine(has_bfloat16_units=False, has_fbgemm=False, has_cuda=False)


@pytest.mark.parametrize(
    ("machine", "dtype", "expected"),
    [
        (OLD_X86, "auto", ["float16", "float32"]),
        (NEW_X86, "auto", ["bfloat16", "float16", "float32"]),
        (OTHER, "auto", ["float32"]),
        (NEW_X86, "float32", ["float32"]),
        (OLD_X86, "bfloat16", ["bfloat16"]),
        (NEW_X86, "bfloat16", ["bfloat16", "bfloat16"]),
        (OLD_X86, "float16", ["float16", "float16"]),
        (OTHER, "float16", ["float16"]),
    ],
)
def test_formats_are_tried_from_the_fastest_to_one_that_works_everywhere(machine, dtype, expected):
    tried = candidates(dtype, CPU, machine)
    assert [candidate.dtype for candidate in tried] == expected
    assert "torch's own" in tried[-1].words


def test_the_reason_for_float16_is_said_where_bfloat16_would_be_faster():
    assert "no bfloat16 units" in candidates("auto", CPU, OLD_X86)[0].words
    assert not any("no bfloat16 units" in candidate.words for candidate in candidates("auto", CPU, NEW_X86))


class Refusing(PlainFormat):
    def __init__(self) -> None:
        raise RuntimeError("this operator needs a processor of tomorrow\nand a stack trace")


class OffByABit(PlainFormat):
    def __init__(self) -> None:
        super().__init__(torch.float32, CPU)

    def pack(self, weight, bias):
        return lambda x: F.linear(x, weight, bias) * (1.1 if len(x) > 32 else 1.0)


class NotANumber(OffByABit):
    def pack(self, weight, bias):
        return lambda x: F.linear(x, weight, bias) * torch.nan


@pytest.mark.parametrize(
    ("broken", "said"),
    [(Refusing, "of tomorrow"), (OffByABit, "33 rows are off by"), (NotANumber, "1 rows are off by")],
)
def test_a_format_that_fails_its_self_test_gives_way_to_the_next_and_that_is_said(broken, said):
    chosen: dict[str, str] = {}
    options = [Candidate("bfloat16", "the new one", broken), Candidate("float32", "the old one", plain_float32)]
    candidate, weights = first_working(options, CPU, chosen)
    assert candidate.words == "the old one" and type(weights) is PlainFormat
    assert "the new one" in chosen["not bfloat16"] and said in chosen["not bfloat16"]
    assert "stack trace" not in chosen["not bfloat16"]


def plain_float32() -> PlainFormat:
    return PlainFormat(torch.float32, CPU)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_dtype_that_can_be_asked_for_works_on_this_machine(dtype):
    chosen = select(dtype=dtype).chosen
    assert chosen["kernels"].startswith(dtype) and "dtype" not in chosen
    assert chosen["kv_cache_dtype"].startswith(dtype)


def test_what_was_chosen_automatically_is_said_and_what_was_asked_for_is_not():
    chosen = select(dtype="auto", device="auto", kv_cache_dtype="float32").chosen
    assert {"dtype", "device"} <= set(chosen) and "kv_cache_dtype" not in chosen
    assert "device" not in select(dtype="auto", device="cpu").chosen


@pytest.mark.parametrize(("kv_cache_dtype", "size"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
def test_the_cache_has_the_format_asked_for_whatever_the_weights_have(kv_cache_dtype, size):
    kernels = select(dtype="float32", kv_cache_dtype=kv_cache_dtype).kernels
    assert kernels.block_bytes == 3 * 2 * SHAPE.num_kv_heads * SHAPE.head_dim * 16 * size


@pytest.mark.parametrize("dtype", ["auto", "float32", "float16", "bfloat16"])
def test_the_selected_format_agrees_with_float32(dtype):
    kernels = select(dtype=dtype).kernels
    assert isinstance(kernels, TorchKernels)
    assert disagreement(kernels.weights, CPU) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match="use --device cpu"):
        device_of("cuda", {})


def select(dtype: str, device: str = "cpu", kv_cache_dtype: str = "auto"):
    with torch.inference_mode():
        return select_kernels(SHAPE, 3, dtype=dtype, device=device, kv_cache_dtype=kv_cache_dtype, block_size=16)
