"""msgpack by msgspec: one encoder and one decoder per direction. Nothing else is ever decoded from a socket."""

from __future__ import annotations

from msgspec.msgpack import Decoder, Encoder

from engine.wire.output import FromCore
from engine.wire.request import ToCore
from engine.wire.step import StepPlan, StepResult

encode = Encoder().encode
decode_to_core = Decoder(ToCore).decode
decode_from_core = Decoder(FromCore).decode
decode_plan = Decoder(StepPlan).decode
decode_result = Decoder(StepResult).decode
