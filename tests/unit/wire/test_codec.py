from __future__ import annotations

from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import codec, tokens
from engine.wire.output import CoreStats, Delta, Failed, FinishReason, FromCore, Ready, Reply, StepOutput, Stopped
from engine.wire.request import Abort, Call, Sampling, Submit, ToCore
from engine.wire.step import Admit, StepPlan, StepResult

ids = st.integers(0, 2**64 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
token_bytes = st.lists(ints, max_size=8).map(tokens.pack_ints)
samplings = st.builds(
    Sampling, max_tokens=st.integers(1, 99), temperature=st.floats(0, 2), seed=st.integers(-(2**63), 2**63 - 1)
)
to_core = st.one_of(
    st.builds(Submit, request=ids, attempt=st.integers(0, 9), tokens=token_bytes, num_prompt=ids, sampling=samplings),
    st.builds(Abort, requests=st.lists(ids, max_size=5).map(tuple)),
    st.builds(Call, call=ids, method=st.text(max_size=9), payload=st.binary(max_size=9)),
)
deltas = st.builds(
    Delta, request=ids, attempt=ids, start=ids, tokens=token_bytes, finish=st.sampled_from([None, *FinishReason])
)
failures = st.builds(Failed, request=ids, attempt=ids, message=st.text(max_size=9))
from_core = st.one_of(
    st.builds(Ready, epoch=ids, pid=ids, max_model_len=ids, num_blocks=ids, block_size=ids),
    st.builds(
        StepOutput,
        epoch=ids,
        step=ids,
        deltas=st.lists(deltas, max_size=3),
        failed=st.lists(failures, max_size=3),
        stats=st.builds(CoreStats),
    ),
    st.builds(Reply, call=ids, payload=st.binary(max_size=9), error=st.none() | st.text(max_size=9)),
    st.builds(Stopped, epoch=ids, reason=st.text(max_size=9)),
)


@given(to_core)
def test_what_a_client_says_arrives_unchanged(message: ToCore) -> None:
    assert codec.decode_to_core(codec.encode(message)) == message


@given(from_core)
def test_what_a_core_says_arrives_unchanged(message: FromCore) -> None:
    assert codec.decode_from_core(codec.encode(message)) == message


@given(st.builds(StepPlan, step=ids, release=token_bytes, admit=st.just([]), new_blocks=token_bytes, slots=token_bytes,
                 counts=token_bytes, starts=token_bytes, sample=st.binary(max_size=4)))  # fmt: skip
def test_a_plan_arrives_unchanged(plan: StepPlan) -> None:
    assert codec.decode_plan(codec.encode(plan)) == plan


def test_an_admission_and_a_result_arrive_unchanged() -> None:
    admit = Admit(0, 1, 0, tokens.pack_ints([1, 2]), 2, 0, Sampling(3, end_ids=(2,)), tokens.pack_ints([5]))
    plan = StepPlan(1, b"", [admit], b"", b"", b"", b"", b"")
    assert codec.decode_plan(codec.encode(plan)).admit == [admit]
    result = StepResult(1, tokens.pack_ints([1]), tokens.pack_ints([7]))
    assert codec.decode_result(codec.encode(result)) == result


def test_an_array_is_never_encoded_by_accident() -> None:
    with pytest.raises(TypeError):
        codec.encode(Delta(1, 0, 0, array("i", [1])))  # type: ignore[arg-type]  # The mistake under test.


def test_foreign_bytes_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        codec.decode_to_core(b"\x81\xa1x\x01")


@given(st.lists(ints, max_size=40))
def test_tokens_cross_the_border_and_come_back(values: list[int]) -> None:
    packed = tokens.pack(array("i", values))
    assert tokens.unpack(packed) == array("i", values)
    assert tokens.count(packed) == len(values)
    assert packed == b"".join(value.to_bytes(4, "little", signed=True) for value in values)


@given(st.integers(1, 64), st.integers(0, 2000))
def test_a_decode_plan_grows_with_its_rows_and_not_with_their_history(rows: int, history: int) -> None:
    def plan(start: int) -> bytes:
        columns = [tokens.pack_ints(range(rows)), tokens.pack_ints([1] * rows), tokens.pack_ints([start] * rows)]
        return codec.encode(StepPlan(7, b"", [], b"", *columns, bytes([1] * rows)))

    assert len(plan(history)) == len(plan(0))
