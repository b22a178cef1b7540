from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.config import EngineConfig
from engine.base.errors import ConfigError
from engine.launch.flags import Parser, add_flags, all_flags, resolve

FLAGS = all_flags()


def parsed(line: str) -> dict[str, object]:
    parser = Parser(prog="engine serve", allow_abbrev=False)
    add_flags(parser, FLAGS)
    return vars(parser.parse_args(line.split()))


def test_without_flags_everything_is_default() -> None:
    assert resolve(parsed(""), FLAGS) == EngineConfig()


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.field)
def test_every_flag_explains_itself(flag) -> None:
    assert len(flag.help) > 15


def test_every_field_has_a_name_of_its_own() -> None:
    names = [flag.field for flag in FLAGS]
    assert len(names) == len(set(names))


def test_flags_set_the_field_they_are_made_from() -> None:
    line = "--max-num-seqs 8 --max-model-len 4k --kv-cache-memory-bytes 1GiB --no-enable-prefix-caching"
    config = resolve(parsed(line + " --api-key a --api-key b"), FLAGS)
    assert config.scheduler.max_num_seqs == 8
    assert config.model.max_model_len == 4000
    assert config.cache.kv_cache_memory_bytes == 1 << 30
    assert not config.cache.enable_prefix_caching
    assert config.frontend.api_key == ("a", "b")


def test_spellings_of_other_engines_mean_the_same() -> None:
    line = "--context-length 512 --max-running-requests 4 --chunked-prefill-size 128 --tp-size 1"
    config = resolve(parsed(line), FLAGS)
    assert (config.model.max_model_len, config.scheduler.max_num_seqs) == (512, 4)
    assert config.scheduler.max_num_batched_tokens == 128


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--port x", "--port"),
        ("--port 70000", "--port"),
        ("--dtype float8", "--dtype.*float32"),
        ("--max-num-seqs 0", "--max-num-seqs"),
        ("--max-num-seqs 100 --max-num-batched-tokens 50", "max_num_batched_tokens"),
        ("--tensor-parallel-size 2", "tensor_parallel_size"),
        ("--ssl-certfile a.pem", "ssl_keyfile"),
    ],
)
def test_a_wrong_value_is_one_error_that_names_it(line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        resolve(parsed(line), FLAGS)


def test_an_unknown_flag_is_refused_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parsed("--max-num-seq 8")
    assert stop.value.code == 2
    assert "did you mean --max-num-seqs?" in capsys.readouterr().err


def test_a_flag_wins_over_its_variable_and_that_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "engine.yaml"
    file.write_text("max-num-seqs: 3\nport: 4444\nblock_size: 32\n")
    monkeypatch.setenv("ENGINE_ARG_MAX_NUM_SEQS", "5")
    monkeypatch.setenv("ENGINE_ARG_PORT", "5555")
    config = resolve(parsed("--port 6666"), FLAGS, str(file))
    assert (config.frontend.port, config.scheduler.max_num_seqs, config.cache.block_size) == (6666, 5, 32)


@pytest.mark.parametrize(
    ("text", "says"), [("max-num-seq: 3", "max_num_seqs"), ("- 1", "expected lines"), ("a: [", ""), ("# größe", "")]
)
def test_a_wrong_file_is_one_error_that_names_it(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "engine.yaml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=f"--config {file}.*{says}"):
        resolve(parsed(""), FLAGS, str(file))


def test_a_misspelt_variable_is_refused_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_ARG_MAX_NUM_SQS", "5")
    with pytest.raises(ConfigError, match="did you mean ENGINE_ARG_MAX_NUM_SEQS"):
        resolve(parsed(""), FLAGS)
