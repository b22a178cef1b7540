"""The other ways in: the offline LLM, `engine chat`, `engine run-batch`, token ids only, a worker process."""

from __future__ import annotations

import gc
import json
import random
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
import torch
from setproctitle import getproctitle

from engine import LLM, SamplingParams
from engine.base.errors import ClientError, ConfigError
from engine.core.executor_port import Executor
from engine.wire.step import StepPlan, StepResult
from tests.e2e.serving import run_engine, served
from tests.fakes.waiting import until
from tests.oracles.tiny_serving import write_tiny_served

pytestmark = pytest.mark.xdist_group("commands")

ONE_THREAD = ("--threads", "1")
GREEDY = SamplingParams(temperature=0, max_tokens=8)
TEMPLATES = {
    "plain": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
    "with-begin": "{{ bos_token or '<s>' }}{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}",
    "with-end": "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_served(tmp_path_factory.mktemp("tiny"))


def completion(url: str, **body: object) -> dict[str, object]:
    answer = httpx.post(url + "/v1/completions", json={"temperature": 0, **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]  # JSON.


def conversation(rng: random.Random) -> list[dict[str, str]]:
    words = ["the", "quick", "<|im_start|>", "Größe", "😀", "\n", "<s>", "fox"]
    return [
        {"role": rng.choice(["user", "assistant"]), "content": " ".join(rng.choices(words, k=rng.randint(1, 6)))}
        for _ in range(rng.randint(1, 4))
    ]


@pytest.mark.parametrize("template", TEMPLATES)
def test_TOK_02_offline_and_http_read_a_conversation_alike(template: str, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(TEMPLATES[template])
    conversations = [conversation(random.Random(seed)) for seed in range(20)]
    with LLM(str(tiny), chat_template=str(file), threads=1) as llm:
        offline = [list(each.prompt_token_ids) for each in llm.chat(conversations, GREEDY, use_tqdm=False)]
    with served(tiny, tmp_path, "--chat-template", str(file), *ONE_THREAD) as server:
        for messages, expected in zip(conversations, offline, strict=True):
            body = {"messages": messages, "max_tokens": 1, "return_token_ids": True}
            answer = httpx.post(server.url + "/v1/chat/completions", json=body, timeout=60).json()
            assert answer["prompt_token_ids"] == expected
            assert answer["usage"]["prompt_tokens"] == len(expected)


def test_TOK_08_every_length_up_to_the_context_is_accepted_whole(tiny: Path, tmp_path: Path) -> None:
    limit = 64
    with served(tiny, tmp_path, "--max-model-len", str(limit), "--max-num-batched-tokens", "64", *ONE_THREAD) as server:
        for length in (limit - 1, limit - 2, limit - 1 - limit // 2):
            answer = completion(server.url, prompt=[7] * length, max_tokens=1)
            assert answer["usage"]["prompt_tokens"] == length  # type: ignore[index]  # JSON.
        for length in (limit, limit + 1):
            refused = httpx.post(server.url + "/v1/completions", json={"prompt": [7] * length, "max_tokens": 1})
            assert refused.status_code == 400 and refused.json()["error"]["code"] == "context_length_exceeded"


def test_TOK_07_a_conversation_that_cannot_fit_is_refused_without_being_tokenized(tiny: Path, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "the quick brown fox " * 100_000}]
    with served(tiny, tmp_path, *ONE_THREAD) as server:
        refused = httpx.post(server.url + "/v1/chat/completions", json={"messages": messages}, timeout=10)
    error = refused.json()["error"]
    assert refused.status_code == 400 and error["code"] == "context_length_exceeded"
    assert "at least" in error["message"]  # Known from its length alone.


def test_LEN_04_no_route_lets_a_long_text_reach_the_engine_unchecked(tiny: Path, tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog " * 5
    with served(tiny, tmp_path, "--max-model-len", "5", "--max-num-batched-tokens", "64", *ONE_THREAD) as server:
        paths = httpx.get(server.url + "/openapi.json").json()["paths"]
        posts = [path for path, methods in paths.items() if "post" in methods]
        assert {"/tokenize", "/v1/completions", "/v1/chat/completions"} <= set(posts)
        for path in [*posts, "/v1/embeddings", "/score", "/pooling"]:
            body = {"prompt": text, "input": text, "messages": [{"role": "user", "content": text}], "tokens": [7] * 20}
            for drop in ("prompt", "messages"):
                kept = {name: value for name, value in body.items() if name != drop}
                assert httpx.post(server.url + path, json=kept, timeout=10).status_code in (200, 400, 404, 501)
        assert completion(server.url, prompt=[7, 8], max_tokens=1)["usage"]["completion_tokens"] == 1  # type: ignore[index]  # JSON.


def test_the_offline_engine_answers_in_order_with_vllms_names(tiny: Path) -> None:
    with LLM(model=str(tiny), dtype="float32", tensor_parallel_size=1, threads=1) as llm:
        prompts = ["the quick", {"prompt_token_ids": [7, 8, 9]}, "a b"]
        params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, logprobs=2)
        results = llm.generate(prompts, params, use_tqdm=False)
        assert [result.prompt for result in results] == ["the quick", None, "a b"]
        for result in results:
            answer = result.outputs[0]
            assert len(answer.token_ids) == 4 and isinstance(answer.text, str)
            assert answer.finish_reason == "length"
            assert answer.logprobs is not None and len(answer.logprobs) == 4
            assert all(token in entry for token, entry in zip(answer.token_ids, answer.logprobs, strict=True))
        with pytest.raises(ClientError):
            llm.generate(["good", "bad"], [GREEDY, SamplingParams(temperature=-1)], use_tqdm=False)
        assert len(llm.generate("alone", GREEDY, use_tqdm=False)) == 1
    with pytest.raises(ConfigError, match="closed"):
        llm.generate("too late", GREEDY)


def test_a_closed_engine_leaves_no_weights_behind(tiny: Path) -> None:
    llm = LLM(str(tiny), threads=1)
    runner = weakref.ref(llm.core.executor.runner)  # type: ignore[attr-defined]  # The inline executor's.
    llm.close()
    del llm
    gc.collect()
    assert runner() is None


def test_a_closed_engine_leaves_the_interpreter_as_it_found_it(tiny: Path) -> None:
    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
        threads = {thread.name for thread in threading.enumerate()}
        return torch.get_num_threads(), handlers, threads, gc.get_threshold(), gc.get_freeze_count(), getproctitle()

    before = state()
    with LLM(str(tiny), threads=before[0] + 1) as llm:  # type: ignore[operator]  # A number.
        llm.generate("the quick", GREEDY, use_tqdm=False)
    assert state() == before


class InterruptedExecutor:
    """A core's executor over another one; Ctrl-C comes in the middle of its third step."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.steps = 0

    def submit(self, plan: StepPlan) -> None:
        self.executor.submit(plan)
        self.steps += 1
        if self.steps == 3:
            signal.raise_signal(signal.SIGINT)

    def collect(self) -> StepResult:
        return self.executor.collect()

    def close(self) -> None:
        self.executor.close()


def test_an_offline_engine_that_was_interrupted_in_a_step_is_as_good_as_new(tiny: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with LLM(str(tiny), threads=1) as llm:
        before = llm.generate(["the quick", "a b"], GREEDY, use_tqdm=False)
        llm.core.executor = InterruptedExecutor(llm.core.executor)
        with pytest.raises(KeyboardInterrupt):
            llm.generate(["the quick", "a b", "brown"], GREEDY, use_tqdm=False)
        assert signal.getsignal(signal.SIGINT) is handler
        after = llm.generate(["the quick", "a b"], GREEDY, use_tqdm=False)
        assert [each.outputs for each in after] == [each.outputs for each in before]
        assert llm.reset_prefix_cache(), "nobody holds blocks"


def test_threads_that_share_an_offline_engine_take_turns(tiny: Path) -> None:
    with LLM(str(tiny), threads=1) as llm, ThreadPoolExecutor(4) as pool:
        alone = llm.generate("the quick", GREEDY, use_tqdm=False)[0].outputs
        together = pool.map(lambda _: llm.generate("the quick", GREEDY, use_tqdm=False)[0].outputs, range(8))
        assert list(together) == [alone] * 8


def test_the_offline_engine_takes_more_prompts_than_its_queue(tiny: Path) -> None:
    with LLM(str(tiny), threads=1, max_num_seqs=2, max_num_queued_reqs=4) as llm:
        assert len(llm.generate(["the quick"] * 20, GREEDY, use_tqdm=False)) == 20


def test_a_setting_that_does_not_exist_is_refused_with_its_neighbour(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="max_num_seqs"):
        LLM(str(tiny), max_num_seq=3)


def test_a_worker_process_gives_the_same_tokens_and_its_death_is_told(tiny: Path, tmp_path: Path) -> None:
    body = {"prompt": "the quick brown", "max_tokens": 12, "ignore_eos": True, "return_token_ids": True}
    with served(tiny, tmp_path, *ONE_THREAD) as server:
        inline = completion(server.url, **body)["choices"][0]["token_ids"]  # type: ignore[index]  # JSON.
    with served(tiny, tmp_path, "--executor", "multiproc", *ONE_THREAD) as server:
        assert completion(server.url, **body)["choices"][0]["token_ids"] == inline  # type: ignore[index]  # JSON.
        server.process_named("worker[dp0 tp0]").kill()
        httpx.post(server.url + "/v1/completions", json=body, timeout=10)
        until(lambda: server.status() == 503, 10.0)


def test_a_model_without_a_tokenizer_serves_token_ids_and_says_so(tiny: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((tiny / name).read_bytes())
    with served(bare, tmp_path, *ONE_THREAD) as server:
        answer = completion(server.url, prompt=[7, 8, 9], max_tokens=3, ignore_eos=True, return_token_ids=True)
        assert len(answer["choices"][0]["token_ids"]) == 3  # type: ignore[index]  # JSON.
        refused = httpx.post(server.url + "/v1/completions", json={"prompt": "text", "max_tokens": 3})
        assert refused.status_code == 400 and "tokenizer" in refused.json()["error"]["message"]
        assert "token ids in, token ids out" in server.log.read_text().lower()


def test_chat_talks_to_a_server(tiny: Path, tmp_path: Path) -> None:
    with served(tiny, tmp_path, *ONE_THREAD) as server:
        said = run_engine(["chat", "--url", server.url, "--max-tokens", "5"], input="hello\n/new\nhello again\n/exit\n")
        assert said.returncode == 0, said.stderr
        assert len(said.stdout.splitlines()) >= 3
        refused = run_engine(["chat", "--url", server.url, "--temperature", "9"], input="hello\n/exit\n")
        assert "temperature" in refused.stderr and refused.returncode == 0
    gone = run_engine(["chat", "--url", server.url], input="hello\n")
    assert gone.returncode == 2 and "engine serve" in gone.stderr


def test_chat_starts_a_server_of_its_own_for_a_model(tiny: Path) -> None:
    said = run_engine(["chat", str(tiny), "--max-tokens", "3"], input="hello\n")
    assert said.returncode == 0, said.stderr
    assert "Talking to" in said.stdout


def batch_line(number: int, **changes: object) -> str:
    line = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions",
            "body": {"prompt": "the quick", "max_tokens": 3, "temperature": 0}}  # fmt: skip
    return json.dumps({**line, **changes})


def test_a_batch_answers_every_line_and_bad_ones_harm_no_other(tiny: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [
        batch_line(0),
        "{not json",
        batch_line(1, url="/v1/embeddings"),
        batch_line(2, body={"prompt": "x", "temperature": 9}),
        batch_line(0),
        batch_line(3, body={"prompt": "x", "stream": True}),
        batch_line(
            4, url="/v1/chat/completions", body={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        ),
        '{"custom_id": "deep", "url": "/v1/completions", "body": ' + "[" * 5000 + "]" * 5000 + "}",
    ]
    source.write_text("\ufeff" + "\n".join(lines) + "\n", "utf-8")
    run = run_engine(["run-batch", str(tiny), "-i", str(source), "-o", str(target), *ONE_THREAD])
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(answers) == len(lines)
    statuses = {answer["custom_id"]: answer["response"]["status_code"] for answer in answers if answer["response"]}
    assert statuses == {"r0": 200, "r2": 400, "r4": 200}
    refused = sorted(answer["error"]["message"] for answer in answers if answer["error"])
    assert [message.split(":")[0] for message in refused] == ["line 2", "line 3", "line 5", "line 6", "line 8"]

    again = run_engine(["run-batch", str(tiny), "-i", str(source), "-o", str(target), *ONE_THREAD])
    assert again.returncode == 2 and "--resume" in again.stderr
    target.write_text("".join(target.read_text().splitlines(keepends=True)[:2]) + '{"cut')
    resumed = run_engine(["run-batch", str(tiny), "-i", str(source), "-o", str(target), "--resume", *ONE_THREAD])
    assert resumed.returncode == 0, resumed.stderr
    ids = [json.loads(line)["custom_id"] for line in target.read_text().splitlines()]
    assert {"r0", "r2", "r4"} <= set(ids)


def test_a_batch_whose_engine_is_lost_leaves_the_rest_for_another_run(tiny: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    endless = {"prompt": "the", "max_tokens": 100_000, "ignore_eos": True}
    source.write_text("\n".join([batch_line(0), *(batch_line(number, body=endless) for number in range(1, 40))]))
    command = [sys.executable, "-m", "engine", "run-batch", str(tiny), "-i", str(source), "-o", str(target)]
    with subprocess.Popen([*command, *ONE_THREAD], stderr=subprocess.PIPE, text=True) as run:
        until(lambda: target.exists() and target.read_text(), 60.0)
        core = next(each for each in psutil.Process(run.pid).children() if "core" in each.cmdline()[0])
        core.kill()
        assert "--resume" in run.communicate(timeout=30)[1]
    assert run.returncode == 1
    ids = [json.loads(line)["custom_id"] for line in target.read_text().splitlines()]
    assert "r0" in ids and len(ids) < 40


def test_a_batch_may_ask_for_more_answers_than_a_servers_queue_holds(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_ARG_MAX_NUM_QUEUED_REQS", "4")
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    body = {"prompt": "the quick", "max_tokens": 2, "n": 8}
    source.write_text("\n".join(batch_line(number, body=body) for number in range(6)))
    flags = ["--max-num-seqs", "2", *ONE_THREAD]
    run = run_engine(["run-batch", str(tiny), "-i", str(source), "-o", str(target), *flags])
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line)["response"] for line in target.read_text().splitlines()]
    assert [answer["status_code"] for answer in answers] == [200] * 6


def test_a_batch_that_cannot_be_read_or_written_costs_no_model(tmp_path: Path) -> None:
    missing = run_engine(["run-batch", "-i", str(tmp_path / "none"), "-o", str(tmp_path / "out")])
    assert missing.returncode == 2 and "no such file" in missing.stderr
    source = tmp_path / "in.jsonl"
    source.write_text(batch_line(0))
    for target in (tmp_path / "no folder" / "out", tmp_path):
        nowhere = run_engine(["run-batch", str(tmp_path), "-i", str(source), "-o", str(target), "--resume"])
        assert nowhere.returncode == 2 and nowhere.stderr.endswith("cannot be written\n")


def test_a_batch_is_not_resumed_into_a_file_of_something_else(tiny: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "notes.txt"
    source.write_text(batch_line(0))
    target.write_text("precious\nnotes")
    run = run_engine(["run-batch", str(tiny), "-i", str(source), "-o", str(target), "--resume", *ONE_THREAD])
    assert run.returncode == 2 and "notes.txt" in run.stderr.splitlines()[-1]
    assert target.read_text() == "precious\nnotes"
