from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.draw import draw_of_all, draw_of_few, philox, uniforms

U64 = st.integers(0, 2**64 - 1)
WORD = 2**32 - 1


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 from the paper, one word at a time."""
    c, k = list(counter), list(key)
    for _ in range(10):
        even, odd = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(odd >> 32) ^ c[1] ^ k[0], odd & WORD, (even >> 32) ^ c[3] ^ k[1], even & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([WORD] * 4, [WORD] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_plain_philox_gives_the_published_vectors(counter, key, words):
    assert plain_philox(counter, key) == words


@given(st.lists(st.tuples(U64, U64), min_size=1, max_size=5))
def test_philox_of_many_is_the_plain_one(pairs):
    keys, counters = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    found = np.stack(philox(keys, counters), axis=1).tolist()
    assert found == [plain_philox([c & WORD, c >> 32, 0, 0], [k & WORD, k >> 32]) for k, c in pairs]


@given(st.lists(st.tuples(U64, U64), min_size=1, max_size=8), st.randoms())
def test_a_number_depends_on_its_seed_and_position_only(pairs, random):
    def numbers(some: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
        seeds, positions = (np.array(column, dtype=np.uint64) for column in zip(*some, strict=True))
        return dict(zip(some, uniforms(seeds, positions).tolist(), strict=True))

    shuffled = random.sample(pairs, len(pairs))
    assert numbers(shuffled) == numbers(pairs) == {pair: numbers([pair])[pair] for pair in pairs}
    assert all(0.0 <= number < 1.0 for number in numbers(pairs).values())


def test_numbers_of_neighbouring_seeds_and_positions_fill_the_interval_evenly():
    seeds, positions = (grid.ravel().astype(np.uint64) for grid in np.mgrid[0:256, 0:256])
    counts, _ = np.histogram(uniforms(seeds, positions), bins=64, range=(0.0, 1.0))
    # 1024 expected in each bin, standard deviation 32.
    assert counts.min() > 1024 - 5 * 32 and counts.max() < 1024 + 5 * 32


def test_a_number_between_two_roundings_of_a_block_stays_in_the_block():
    found = 0
    for seed in range(64):
        weights = np.exp(-40 * np.random.default_rng(seed).random(512)).astype(np.float32)
        weights[249], weights[250:256] = 0.5, 0.0
        block = float(np.add.reduceat(weights, [0, 256], dtype=np.float64)[0])
        running = float(np.cumsum(weights[:256], dtype=np.float64)[-1])
        total = float(np.cumsum(np.add.reduceat(weights, [0, 256], dtype=np.float64))[-1])
        uniform = running / total
        if running <= uniform * total < block:
            found += 1
            assert draw_of_all(weights, uniform) == 249
    assert found, "no seed shows the difference"


weights = st.lists(st.one_of(st.just(0.0), st.floats(0.0, 1.0, width=32)), min_size=1, max_size=700).filter(any)


@given(weights, st.one_of(st.just(0.0), st.just(1.0 - 2.0**-53), st.floats(0.0, 1.0, exclude_max=True)))
def test_both_draws_find_where_the_running_sum_passes(weights, uniform):
    sums = np.cumsum(np.array(weights, dtype=np.float64))
    for index in (
        draw_of_few(np.array(weights, dtype=np.float64), uniform),
        draw_of_all(np.array(weights, dtype=np.float32), uniform),
    ):
        assert weights[index] > 0.0
        below = sums[index - 1] if index else 0.0
        assert below <= uniform * sums[-1] * (1 + 1e-9) and uniform * sums[-1] <= sums[index] * (1 + 1e-9)
