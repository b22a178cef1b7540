"""Gives back the memory that FBGEMM's packed weights hold and do not use.

FBGEMM pads the inputs of a weight to a multiple of 512, with zeros at the end of its buffer: 576 inputs take the room
of 1,024. Torch hands out no pointer to that buffer, so it is found by what glibc writes before a block of its size.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

PAGE = 4096
ALIGNMENT = 64
MARGIN = 1024
"""FBGEMM's own bytes behind the weights, which its kernels may read ahead."""
CHUNK_HEADER = 16
IS_MAPPED = 2
"""glibc's flag for a block with pages of its own."""
DONT_NEED = 4

Interval = tuple[int, int]


class Block(NamedTuple):
    """A packed weight in memory: pages of its own, numbers in `used` bytes at its front, zeros behind."""

    start: int
    size: int
    used: int


class Slack:
    """What was mapped before the weights were packed, so that only what came since is looked at."""

    def __init__(self) -> None:
        self.before = mapped()

    def give_back(self, shapes: Iterable[tuple[int, int]]) -> int:
        """shapes: (outputs, inputs) of every weight packed since. Returns the bytes given back.

        A size of which more or fewer blocks are found than were packed is left alone, and so is one whose end is not
        zero: then the library does not lay its weights out as this file believes.
        """
        packed = Counter(block_of(*shape) for shape in shapes)
        found = list(self.blocks(dict(packed.keys())))
        counts = Counter((block.size, block.used) for block in found)
        return sum(
            release(block) for block in found if counts[block.size, block.used] == packed[block.size, block.used]
        )

    def blocks(self, sizes: dict[int, int]) -> Iterator[Block]:
        """Blocks of these sizes (with the bytes that each uses) in the memory that was mapped since."""
        if sys.platform != "linux":
            return
        memory = os.open("/proc/self/mem", os.O_RDONLY)  # reading there cannot fault, whatever other threads unmap
        try:
            for start, end in since(self.before, mapped()):
                while start < end:
                    size = block_size(os.pread(memory, ALIGNMENT, start))
                    if size in sizes and start + size <= end:
                        yield Block(start, size, sizes[size])
                    start += size if size in sizes else PAGE
        finally:
            os.close(memory)


def block_of(outputs: int, inputs: int) -> tuple[int, int]:
    """(bytes of the block in whole pages, bytes used at its front) of a packed weight."""
    columns = -(-outputs // 16) * 16
    room, used = columns * (-(-inputs // 512) * 512) * 2, columns * inputs * 2
    overhead = ALIGNMENT + 2 * CHUNK_HEADER + MARGIN
    return -(-(room + overhead) // PAGE) * PAGE, used + ALIGNMENT + MARGIN


def block_size(header: bytes) -> int | None:
    """The pages that begin with this header, where it is that of an aligned block: glibc's `malloc_chunk`."""
    if len(header) < ALIGNMENT:
        return None
    offset = ALIGNMENT - CHUNK_HEADER
    before, size = struct.unpack_from("<QQ", header, offset)
    return size - IS_MAPPED + offset if before == offset and size % 8 == IS_MAPPED else None


def release(block: Block) -> int:
    """Whole pages behind the numbers; 0 where they are not zero."""
    start = -(-(block.start + block.used) // PAGE) * PAGE
    size = block.start + block.size - start
    if size <= 0 or np.ctypeslib.as_array((ctypes.c_uint64 * (size // 8)).from_address(start)).any():
        return 0
    advised = ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), DONT_NEED)
    return size if advised == 0 else 0


def mapped() -> list[Interval]:
    """Private memory without a file, in order of addresses."""
    try:
        lines = Path("/proc/self/maps").read_text("ascii").splitlines()
    except OSError:
        return []
    fields = [line.split() for line in lines]
    return [interval(line[0]) for line in fields if line[1] == "rw-p" and len(line) == 5]


def interval(text: str) -> Interval:
    start, _, end = text.partition("-")
    return int(start, 16), int(end, 16)


def since(before: list[Interval], after: list[Interval]) -> Iterator[Interval]:
    """The parts of `after` that are not in `before`."""
    for start, end in after:
        for known_start, known_end in before:
            if known_end <= start or known_start >= end:
                continue
            if start < known_start:
                yield start, known_start
            start = known_end
        if start < end:
            yield start, end
