"""One step of the computing half: a plan in, a result out.

Owns the order of the step. Knows no process and no socket, and of the model only its port.
"""

from __future__ import annotations

import torch
from msgspec import structs

from engine.base.clock import Clock
from engine.base.errors import EngineFault
from engine.sampling.batch import SamplingBatch
from engine.sampling.logprobs import LogprobColumns
from engine.sampling.rows import host_rows
from engine.wire.step import StepPlan, StepResult
from engine.worker.inputs import Runs, Wanted, build_batch, query_starts_of, read_plan, wanted_logits
from engine.worker.methods import WorkerStats
from engine.worker.outcome import Outcome
from engine.worker.port import Model
from engine.worker.rows import Rows, column

PROMPT_CHUNK = 64
"""Rows of prompt logits that are brought to the host at a time: bounds what prompt_logprobs take (INP-06)."""


class ModelRunner:
    """Keeps the sequences that run, and runs plans over them."""

    def __init__(
        self, model: Model, *, max_num_seqs: int, max_model_len: int, block_size: int, vocab_size: int, clock: Clock
    ) -> None:
        """vocab_size: ids that may be drawn; logits beyond them (a padded head) are left out."""
        self.model = model
        self.rows = Rows(max_num_seqs, max_model_len, block_size)
        self.vocab_size = vocab_size
        self.clock = clock
        self.done = WorkerStats()

    def execute(self, plan: StepPlan) -> StepResult:
        """Runs one step. Raises EngineFault when the plan contradicts what is kept here."""
        self.apply_changes(plan)
        runs = read_plan(plan, self.rows)
        outcome = Outcome(len(runs.slots))
        if not len(runs.slots):
            return outcome.result(plan.step, 0.0, 0.0)
        begun = self.clock.now()
        wanted, logits = self.forward(runs)
        computed = self.clock.now()
        self.read_prompts(runs, wanted, logits, outcome)
        self.draw(runs, wanted, logits, outcome)
        self.read_drawn(runs, wanted, logits, outcome)
        drawn = outcome.drawn_rows()
        self.rows.append(runs.slots[drawn], outcome.tokens[drawn])
        self.count(runs, outcome)
        return outcome.result(plan.step, computed - begun, self.clock.now() - computed)

    def reset(self) -> None:
        """Forgets every sequence; the blocks are the core's to reuse."""
        self.rows.clear()

    def stats(self) -> WorkerStats:
        return structs.replace(self.done, running=self.rows.num_running())

    def count(self, runs: Runs, outcome: Outcome) -> None:
        done = self.done
        self.done = WorkerStats(
            steps=done.steps + 1,
            rows=done.rows + int((runs.ends - runs.starts).sum()),
            drawn=done.drawn + int(outcome.has_token.sum()),
            corrupted=done.corrupted + int(outcome.corrupted.sum()),
        )

    def apply_changes(self, plan: StepPlan) -> None:
        """Who leaves, who comes, and which blocks were added, in this order."""
        self.rows.release(column(plan.release))
        for admit in plan.admit:
            self.rows.admit(admit)
        self.rows.add_blocks(column(plan.new_blocks).reshape(-1, 2))

    def forward(self, runs: Runs) -> tuple[Wanted, torch.Tensor]:
        """Runs the model; its logits are float32 [len(wanted.logits_rows), vocab_size]."""
        query_starts = query_starts_of(runs)
        wanted = wanted_logits(runs, query_starts, self.rows)
        batch = build_batch(runs, wanted, query_starts, self.rows)
        with torch.inference_mode():
            logits = self.model.forward(batch)
        if len(logits) != len(wanted.logits_rows) or logits.dtype != torch.float32:
            raise EngineFault(f"the model returned {tuple(logits.shape)} {logits.dtype} for {batch.logits_rows.shape}")
        self.rows.num_computed[runs.slots] = runs.ends
        return wanted, logits[:, : self.vocab_size]

    def draw(self, runs: Runs, wanted: Wanted, logits: torch.Tensor, outcome: Outcome) -> None:
        """A token for each row that reaches the end of its sequence."""
        if not wanted.drawing:
            return
        slots = runs.slots[wanted.drawing].tolist()
        batch = SamplingBatch([self.rows.sampler(slot) for slot in slots], [self.rows.tokens(slot) for slot in slots])
        if wanted.prompt:
            logits = logits[wanted.drawn_from]
        drawn = batch.draw(logits)
        for row, token, corrupted in zip(wanted.drawing, drawn.tokens.tolist(), drawn.corrupted.tolist(), strict=True):
            if corrupted:
                outcome.corrupt(row)
            else:
                outcome.draw(row, token)

    def read_drawn(self, runs: Runs, wanted: Wanted, logits: torch.Tensor, outcome: Outcome) -> None:
        """Log probabilities of the drawn tokens, where they are asked for."""
        for row, index in zip(wanted.drawing, wanted.drawn_from, strict=True):
            alternatives = self.rows.sampler(int(runs.slots[row])).sampling.logprobs
            if alternatives is None or not outcome.has_token[row]:
                continue
            columns = LogprobColumns(alternatives, self.vocab_size)
            columns.add(host_rows(logits, [index])[0], int(outcome.tokens[row]))
            outcome.sampled[row] = columns.rows()

    def read_prompts(self, runs: Runs, wanted: Wanted, logits: torch.Tensor, outcome: Outcome) -> None:
        """Log probabilities of the prompt tokens that this step's rows speak of: of token start + 1 and on."""
        for row, first, number in wanted.prompt:
            slot = int(runs.slots[row])
            alternatives = self.rows.sampler(slot).sampling.prompt_logprobs or 0
            columns = LogprobColumns(alternatives, self.vocab_size)
            next_tokens = self.rows.tokens(slot)[runs.starts[row] + 1 :][:number].tolist()
            if self.read_prompt(columns, logits[first : first + number], next_tokens):
                outcome.prompt[row] = columns.rows()
            else:
                outcome.corrupt(row)

    def read_prompt(self, columns: LogprobColumns, logits: torch.Tensor, next_tokens: list[int]) -> bool:
        """False when one of the rows holds no number."""
        for first in range(0, len(next_tokens), PROMPT_CHUNK):
            chunk = logits[first : first + PROMPT_CHUNK].cpu().numpy()
            tokens = next_tokens[first : first + PROMPT_CHUNK]
            if not all(columns.add(scores, token) for scores, token in zip(chunk, tokens, strict=True)):
                return False
        return True
