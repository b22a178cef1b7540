"""The endpoints around the answers: models, tokenizing, health, metrics, keys, CORS, OpenAPI."""

import json

import httpx
import msgspec
import pytest

from engine import __version__
from engine.client.liveness import Health
from engine.frontends.openai.translate import REFUSED
from engine.text import ChatTemplate
from tests.fakes.fake_async_engine import LIMITS, FakeEngine
from tests.fakes.http import app_of, client_of

JSON = {"content-type": "application/json"}


async def get(path: str, engine: FakeEngine | None = None, **config: object):
    async with client_of(engine or FakeEngine(), **config) as client:
        return await client.get(path)


async def post(path: str, body: dict, engine: FakeEngine | None = None):
    async with client_of(engine or FakeEngine()) as client:
        return await client.post(path, json=body)


async def test_models_lists_every_name_and_finds_each():
    found = (await get("/v1/models")).json()
    assert [one["id"] for one in found["data"]] == ["tiny", "alias"]
    assert found["data"][0]["max_model_len"] == 4096
    assert (await get("/v1/models/alias")).json()["id"] == "alias"


async def test_a_model_name_may_hold_slashes():
    engine = FakeEngine(limits=msgspec.structs.replace(LIMITS, model_names=("org/model",)))
    assert (await get("/v1/models/org/model", engine)).json()["id"] == "org/model"


async def test_an_unknown_model_is_404():
    answer = await get("/v1/models/gpt-4")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_tokenize_and_back(prefix: str):
    answer = (await post(prefix + "/tokenize", {"prompt": "aé", "return_token_strs": True})).json()
    assert answer == {
        "count": 4,
        "max_model_len": 4096,
        "tokens": [256, 97, 195, 169],
        "token_strs": ["<s>", "a", "bytes:\\xc3", "bytes:\\xa9"],
    }
    assert (await post(prefix + "/detokenize", {"tokens": [97, 195, 169]})).json() == {"prompt": "aé"}


async def test_TOK_01_tokenize_chat_and_usage_count_the_same():
    messages = [{"role": "user", "content": "hi"}]
    count = (await post("/tokenize", {"messages": messages})).json()["count"]
    usage = (await post("/v1/chat/completions", {"messages": messages})).json()["usage"]
    assert count == usage["prompt_tokens"]


@pytest.mark.parametrize(
    "body", [{}, {"prompt": "a", "messages": []}, {"prompt": None}, {"prompt": 3}, {"messages": []}], ids=str
)
async def test_tokenize_takes_a_prompt_or_messages(body: dict):
    assert (await post("/tokenize", body)).status_code == 400


@pytest.mark.parametrize("body", [{}, {"tokens": "a"}, {"tokens": [1.5]}, {"tokens": [True]}], ids=str)
async def test_detokenize_takes_integers(body: dict):
    assert (await post("/detokenize", body)).status_code == 400


async def test_tokenizer_info_has_what_lm_eval_reads():
    found = (await get("/tokenizer_info")).json()
    assert (found["bos_token"], found["eos_token"], found["model_max_length"]) == ("<s>", "</s>", 4096)
    assert found["chat_template"] == "from the tokenizer"
    assert found["pad_token"] is None


async def test_tokenizer_info_shows_the_template_that_is_served():
    engine = FakeEngine()
    engine.text.chat = ChatTemplate("from a file", {})
    assert (await get("/tokenizer_info", engine)).json()["chat_template"] == "from a file"


async def test_without_a_tokenizer_the_tokenizer_routes_say_so():
    engine = FakeEngine(limits=msgspec.structs.replace(LIMITS, has_tokenizer=False))
    for answer in (
        await get("/tokenizer_info", engine),
        await post("/tokenize", {"prompt": "a"}, engine),
        await post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, engine),
    ):
        assert answer.status_code == 400
        assert "tokenizer" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/health", "/ping"])
@pytest.mark.parametrize(
    ("state", "status"),
    [("healthy", 200), ("starting", 503), ("stalled", 503), ("dead", 503)],
    ids=lambda v: f"HLM-01-{v}",
)
async def test_health_is_the_cores(path: str, state: str, status: int):
    engine = FakeEngine()
    engine.state = Health(state, "no heartbeat for 9 s")
    answer = await get(path, engine)
    assert answer.status_code == status
    if status == 503:
        assert state in answer.json()["error"]["message"]
        assert answer.headers["retry-after"] == "1"


async def test_version_is_the_packages():
    assert (await get("/version")).json() == {"version": __version__}


async def test_metrics_answer_get_and_head_and_count_answers():
    async with client_of(FakeEngine()) as client:
        await client.post("/v1/completions", json={"prompt": "a"})
        await client.post("/v1/completions", json={})
        await client.request("BREW", "/coffee/" + "x" * 100)
        head = await client.head("/metrics")
        text = (await client.get("/metrics")).text
    assert head.status_code == 200 and head.content == b""
    assert 'http_requests_total{handler="/v1/completions",method="POST",status="200"} 1' in text
    assert 'http_requests_total{handler="/v1/completions",method="POST",status="400"} 1' in text
    assert 'http_requests_total{handler="none",method="other",status="405"}' in text.replace("404", "405")
    assert "coffee" not in text and "BREW" not in text


async def test_metrics_show_the_engines_own():
    engine = FakeEngine()
    engine.metrics.stray_outputs.add(5)
    text = (await get("/metrics", engine)).text
    assert 'enginewright:stray_outputs_total{model_name="tiny",engine="0"} 5' in text


KEYED = {"api_key": ("right", "other")}
GUARDED = ["/v1/models", "/v1/models/tiny", "/tokenizer_info", "/nowhere", "/v1//models", "/V1/models", "//health"]


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "header",
    [None, "Bearer wrong", "Bearer", "Basic right", "right", "Bearer rightx", "Bearer right other", "Bearer é"],
)
async def test_every_path_but_the_open_ones_asks_for_a_key(path: str, header: str | None):
    headers = {} if header is None else {"authorization": header.encode()}
    async with client_of(FakeEngine(), **KEYED) as client:
        answer = await client.get(path, headers=headers)
    assert answer.status_code == 401
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"])
async def test_posting_asks_for_a_key_before_reading_the_body(path: str):
    engine = FakeEngine()
    async with client_of(engine, **KEYED) as client:
        assert (await client.post(path, content=b"not json")).status_code == 401


@pytest.mark.parametrize("header", ["Bearer right", "bearer other", "BEARER  right"])
async def test_any_of_the_keys_opens(header: str):
    async with client_of(FakeEngine(), **KEYED) as client:
        assert (await client.get("/v1/models", headers={"authorization": header})).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ping", "/metrics", "/version", "/openapi.json"])
async def test_probes_need_no_key(path: str):
    assert (await get(path, **KEYED)).status_code == 200


LISTED, OTHER = "http://a.example", "http://b.example"


def preflight(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }


async def test_SEC_02_preflight_of_a_listed_origin_passes_without_a_key():
    async with client_of(FakeEngine(), allowed_origins=(LISTED,), **KEYED) as client:
        answer = await client.options("/v1/chat/completions", headers=preflight(LISTED))
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == LISTED
    assert "authorization" in answer.headers["access-control-allow-headers"]


async def test_SEC_02_preflight_of_another_origin_allows_nothing():
    async with client_of(FakeEngine(), allowed_origins=(LISTED,), **KEYED) as client:
        answer = await client.options("/v1/chat/completions", headers=preflight(OTHER))
    assert "access-control-allow-origin" not in answer.headers


async def test_SEC_02_by_default_no_origin_is_allowed():
    async with client_of(FakeEngine()) as client:
        answer = await client.options("/v1/chat/completions", headers=preflight(LISTED))
        assert "access-control-allow-origin" not in answer.headers
        assert "access-control-allow-origin" not in (await client.get("/health", headers={"origin": LISTED})).headers


async def test_SEC_02_a_401_carries_the_cors_headers_of_a_listed_origin():
    async with client_of(FakeEngine(), allowed_origins=(LISTED,), **KEYED) as client:
        answer = await client.get("/v1/models", headers={"origin": LISTED})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == LISTED


async def test_SEC_02_any_origin_never_comes_with_credentials():
    async with client_of(FakeEngine(), allowed_origins=("*",)) as client:
        for answer in (
            await client.options("/v1/models", headers=preflight(OTHER)),
            await client.get("/v1/models", headers={"origin": OTHER, "cookie": "a=b"}),
        ):
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "access-control-allow-credentials" not in answer.headers


async def test_a_500_carries_the_cors_headers_too():
    engine = FakeEngine(lambda *_: [KeyError()])
    async with client_of(engine, allowed_origins=(LISTED,)) as client:
        answer = await client.post("/v1/completions", json={"prompt": "a"}, headers={"origin": LISTED})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, LISTED)


@pytest.mark.parametrize("name", ["a b", "x" * 129, "", "a\tb"])
async def test_a_request_id_that_is_no_token_is_replaced(name: str):
    async with client_of(FakeEngine()) as client:
        echoed = (await client.get("/health", headers={"x-request-id": name})).headers["x-request-id"]
    assert echoed != name and len(echoed) == 32


async def test_openapi_describes_the_bodies_and_resolves_every_reference():
    document = (await get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    for path, body in [("/v1/chat/completions", "ChatRequest"), ("/v1/completions", "CompletionRequest")]:
        content = document["paths"][path]["post"]["requestBody"]["content"]
        assert content["application/json"]["schema"]["$ref"].endswith("/" + body)
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= set(schemas)
    assert "messages" in schemas["ChatRequest"]["required"]
    assert not REFUSED.keys() & schemas["ChatRequest"]["properties"].keys()


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_no_page_is_served_that_loads_scripts_from_elsewhere(path: str):
    assert (await get(path)).status_code == 404


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/v1/models", 401)])
async def test_under_a_proxys_prefix_the_key_check_guards_the_same_paths(path: str, status: int):
    app = app_of(FakeEngine(), **KEYED)
    transport = httpx.ASGITransport(app=app, root_path="/proxied")
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        assert (await client.get("/proxied" + path)).status_code == status
