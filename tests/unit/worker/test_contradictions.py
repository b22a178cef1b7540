"""Where the core's word and the worker's columns differ, the step fails before anything is computed."""

from __future__ import annotations

import pytest

from engine.base.errors import EngineFault
from engine.wire.request import Sampling
from engine.wire.step import Admit, StepPlan
from engine.wire.tokens import pack_ints
from engine.worker.runner import ModelRunner
from tests.fakes.fake_model import FakeModel
from tests.fakes.manual_clock import ManualClock

GREEDY = Sampling(max_tokens=9)


def admit(slot: int = 1, tokens: int = 6, num_prompt: int = 6, computed: int = 0, blocks: int = 2) -> Admit:
    return Admit(
        slot, 1, 0, pack_ints(range(tokens)), num_prompt, computed, GREEDY, pack_ints(range(blocks))
    )  # fmt: skip


def plan(
    *admits: Admit,
    release: tuple[int, ...] = (),
    new_blocks: tuple[int, ...] = (),
    slots: tuple[int, ...] = (),
    counts: tuple[int, ...] = (),
    starts: tuple[int, ...] = (),
    sample: bytes = b"",
) -> StepPlan:
    columns = [pack_ints(column) for column in (slots, counts, starts)]
    return StepPlan(1, pack_ints(release), list(admits), pack_ints(new_blocks), *columns, sample)


def row(slot: int = 0, count: int = 3, start: int = 0, sample: int = 1) -> dict[str, object]:
    return {"slots": (slot,), "counts": (count,), "starts": (start,), "sample": bytes([sample])}


@pytest.fixture
def model() -> FakeModel:
    model = FakeModel(vocab_size=10, block_size=4)
    model.allocate_cache(8)
    return model


@pytest.fixture
def runner(model) -> ModelRunner:
    """Slot 0 holds three tokens and one block of four; slot 1 is free; a context is 8 tokens."""
    runner = ModelRunner(model, max_num_seqs=2, max_model_len=8, block_size=4, vocab_size=10, clock=ManualClock())
    runner.execute(plan(admit(0, tokens=3, num_prompt=3, blocks=1)))
    return runner


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param(plan(admit(slot=0)), "slot is taken", id="slot-taken"),
        pytest.param(plan(admit(slot=2)), "does not exist", id="slot-too-high"),
        pytest.param(plan(admit(slot=-1)), "does not exist", id="slot-negative"),
        pytest.param(plan(admit(tokens=9)), "do not fit the context", id="tokens-beyond-context"),
        pytest.param(plan(admit(tokens=0, num_prompt=0)), "do not fit", id="no-tokens"),
        pytest.param(plan(admit(num_prompt=7)), "num_prompt", id="prompt-longer-than-tokens"),
        pytest.param(plan(admit(computed=6)), "no token to run", id="everything-computed"),
        pytest.param(plan(admit(computed=5, blocks=1)), "without a block", id="computed-without-blocks"),
        pytest.param(plan(admit(blocks=4)), "more blocks", id="blocks-beyond-context"),
        pytest.param(plan(release=(1,)), "not in use", id="release-of-a-free-slot"),
        pytest.param(plan(release=(0, 0)), "not in use", id="released-twice"),
        pytest.param(plan(release=(-2,)), "not in use", id="release-of-a-negative-slot"),
        pytest.param(plan(new_blocks=(1, 5)), "not in use", id="block-for-a-free-slot"),
        pytest.param(plan(new_blocks=(0, 5, 0, 6, 0, 7)), "more blocks", id="blocks-pile-up"),
        pytest.param(plan(**row(slot=1)), "slot 1", id="row-of-a-free-slot"),
        pytest.param(plan(**row(slot=2)), "does not exist", id="row-of-no-slot"),
        pytest.param(plan(**row(slot=-1)), "does not exist", id="row-of-a-negative-slot"),
        pytest.param(plan(**row(start=1, count=2)), "0 of them computed", id="row-starts-past-the-frontier"),
        pytest.param(plan(**row(count=4, sample=0)), "3 tokens", id="row-ends-past-the-tokens"),
        pytest.param(plan(**row(count=0, sample=0)), "0 to 0", id="row-without-tokens"),
        pytest.param(plan(**row(count=2)), "0 to 2", id="draw-before-the-end"),
        pytest.param(
            plan(admit(blocks=1), **row(slot=1, count=6)), "1 blocks of 4", id="row-runs-past-its-blocks"
        ),
        pytest.param(
            plan(slots=(0, 0), counts=(1, 2), starts=(0, 1), sample=b"\0\1"), "twice", id="two-rows-of-a-slot"
        ),
        pytest.param(plan(slots=(0,), counts=(3,), starts=(0,)), "differ in length", id="columns-differ"),
    ],
)  # fmt: skip
def test_a_plan_that_contradicts_the_rows_is_a_fault(runner, model, wrong, said):
    with pytest.raises(EngineFault, match=said):
        runner.execute(wrong)
    assert not model.batches


def test_a_plan_that_fits_runs(runner, model):
    runner.execute(plan(admit(), release=(), **row()))
    assert len(model.batches) == 1


def test_an_answer_may_fill_the_context_and_not_pass_it(runner):
    """Eight tokens of context: the token drawn from the eighth is kept, and can never be run."""
    start = 0
    for count in (3, 1, 1, 1, 1, 1):
        new_blocks = (0, 3) if start == 3 else ()
        runner.execute(plan(new_blocks=new_blocks, **row(start=start, count=count)))
        start += count
    assert runner.rows.num_tokens[0] == 9
    with pytest.raises(EngineFault, match=r"2 blocks of 4|outgrew"):
        runner.execute(plan(**row(start=8, count=1)))


def test_logits_of_another_shape_or_type_are_a_fault(model):
    class HalfModel(FakeModel):
        def forward(self, batch):
            return super().forward(batch).half()

    half = HalfModel(vocab_size=10, block_size=4)
    half.allocate_cache(8)
    runner = ModelRunner(half, max_num_seqs=2, max_model_len=8, block_size=4, vocab_size=10, clock=ManualClock())
    with pytest.raises(EngineFault, match="float16"):
        runner.execute(plan(admit(0, tokens=3, num_prompt=3, blocks=1), **row()))
