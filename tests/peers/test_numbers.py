"""Numbers beside transformers, live: fresh prompts, float32, each greedy token and its log probabilities."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine import LLM, SamplingParams
from engine.client.outputs import RequestOutput
from tests.peers.layout import peers_folder, require
from tests.peers.servers import INHERITED, OFFLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(1800)]

NUM_PROMPTS, NUM_TOKENS = 8, 32
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, logprobs=20, ignore_eos=True)
CLEAR_GAP = 1e-3
"""Two tokens nearer than this, in log probability, may change places with the order of a sum."""
TOLERANCE = 1e-3
FRAGMENTS = (
    "The capital of France is", "def add(a, b):\n    return", "In 1984, 37 of 4,096 people", "x = 3.14159 * 10",
    "Größe und Höhe", "日本の首都は", "Once upon a time", " \n\n", "- milk\n- eggs\n-", "👩‍🚀🚀", '{"name": "',
    "naïve café", "SELECT * FROM", "    \t", "²³ ½", "E = mc", "Dear Sir or Madam,", "because it rained", "\r\n",
    "don't", "…",
)  # fmt: skip


class Pair(NamedTuple):
    """One prompt: what we answered, and what the reference says of each of our steps."""

    ours: RequestOutput
    reference: dict[str, Any]

    def steps(self) -> list[tuple[int, dict[int, float], dict[str, Any]]]:
        """Of each step: our token, our log probabilities, the reference's words on it."""
        answer = self.ours.outputs[0]
        assert answer.logprobs is not None
        entries = [{token: entry.logprob for token, entry in each.items()} for each in answer.logprobs]
        return list(zip(answer.token_ids, entries, self.reference["steps"], strict=True))


@pytest.fixture(scope="module")
def pairs(pytestconfig: pytest.Config, default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    require(peers_folder(), "transformers", "folders")
    given = pytestconfig.option.peers_seed
    seed = random.randrange(1 << 31) if given is None else given
    print(f"prompts: --peers-seed {seed}")
    with LLM(str(default_model), dtype="float32") as llm:
        answers = llm.generate(fresh_prompts(random.Random(seed)), GREEDY, use_tqdm=False)
    reference = ask_reference(answers, tmp_path_factory.mktemp("reference"))
    return [Pair(*each) for each in zip(answers, reference, strict=True)]


def test_a_prompt_is_read_as_the_same_tokens(pairs: list[Pair]) -> None:
    for pair in pairs:
        assert pair.ours.prompt_token_ids == pair.reference["prompt_token_ids"], repr(pair.ours.prompt)


def test_each_greedy_token_is_the_reference_s_where_that_is_sure(pairs: list[Pair]) -> None:
    sure = 0
    for pair in pairs:
        for place, (token, _, step) in enumerate(pair.steps()):
            is_sure = step["logprobs"][0] - step["logprobs"][1] > CLEAR_GAP
            sure += is_sure
            assert token == step["best"][0] or not is_sure, f"token {place} after {pair.ours.prompt!r}"
    assert sure > 0.9 * NUM_PROMPTS * NUM_TOKENS


def test_log_probabilities_agree(pairs: list[Pair], pages: list[str]) -> None:
    """At the tokens that we report; and ours in order against the reference's best, so that none is left out."""
    pages.append(f"Largest difference of a log probability: {max(map(largest_difference, pairs)):.1e}.")
    for pair in pairs:
        for place, (_, entries, step) in enumerate(pair.steps()):
            where = f"token {place} after {pair.ours.prompt!r}"
            assert list(entries.values()) == pytest.approx(step["asked"], abs=TOLERANCE, rel=0), where
            ranked = sorted(entries.values(), reverse=True)
            assert ranked == pytest.approx(step["logprobs"][: len(ranked)], abs=TOLERANCE, rel=0), where


def largest_difference(pair: Pair) -> float:
    return max(
        abs(ours - theirs)
        for _, entries, step in pair.steps()
        for ours, theirs in zip(entries.values(), step["asked"], strict=True)
    )


def fresh_prompts(rng: random.Random) -> list[str]:
    """Mixed texts of one fragment to a few hundred tokens."""
    sizes = [1, 2, 3, 5, 8, 20, 60, 120]
    assert len(sizes) == NUM_PROMPTS
    return ["".join(rng.choice(("", " ", ". ")) + rng.choice(FRAGMENTS) for _ in range(size)) for size in sizes]


def ask_reference(answers: list[RequestOutput], folder: Path) -> list[dict[str, Any]]:
    """Runs the reference in its own environment, once for all prompts."""
    asked = [
        {
            "text": each.prompt,
            "token_ids": each.outputs[0].token_ids,
            "asked": [list(entry) for entry in each.outputs[0].logprobs or ()],
        }
        for each in answers
    ]
    questions, found = folder / "questions.json", folder / "answers.json"
    questions.write_text(json.dumps(asked), "utf-8")
    peers = peers_folder()
    script = Path(__file__).with_name("reference.py")
    command: list[Path | str] = [peers / "hf311/bin/python", "-P", script, peers / "hf/float32", questions, found]
    environ = {name: value for name, value in os.environ.items() if name not in (*INHERITED, "PYTHONPATH")} | OFFLINE
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(found.read_text("utf-8"))["answers"]  # type: ignore[no-any-return]  # JSON.
