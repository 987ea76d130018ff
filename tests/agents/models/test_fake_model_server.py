"""The fake model server itself: what its users rely on."""

import http.client
from urllib.parse import urlsplit

import orjson

from webtraj.testing.model_server import FakeModelServer, Reply, exchange


def _request(server, method="POST", path="/v1/chat/completions", body=None, headers=()):
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    try:
        data = body if isinstance(body, bytes) else orjson.dumps(body) if body else None
        connection.request(method, path, data, dict(headers))
        answer = connection.getresponse()
        return answer.status, orjson.loads(answer.read() or b"null")
    finally:
        connection.close()


def _chat(text, **fields):
    return {"model": "fake-model", "messages": [{"role": "user", "content": text}], **fields}


def _text(answer):
    return answer["choices"][0]["message"]["content"]


def test_replies_come_in_order_and_then_no_more():
    with FakeModelServer(["a", Reply("b"), Reply.error(418)]) as server:
        answers = [_request(server, body=_chat("Hi")) for _ in range(4)]
    assert [status for status, _ in answers] == [200, 200, 418, 400]
    assert [_text(answer) for _, answer in answers[:2]] == ["a", "b"]
    assert "no more replies" in answers[3][1]["error"]["message"]


def test_a_rule_sees_the_request():
    def rule(request):
        return f"{request.model} {request.json['seed']} {request.text}"

    with FakeModelServer(rule) as server:
        assert _text(_request(server, body=_chat("x", seed=3))[1]) == "fake-model 3 x"


def test_tokens_decode_to_the_texts(model_server):
    body = _chat("Grüße 🙂", return_token_ids=True, logprobs=True)
    _, answer = _request(model_server, body=body)
    assert exchange.decode(answer["prompt_token_ids"]) == "user: Grüße 🙂assistant: "
    [choice] = answer["choices"]
    assert exchange.decode(choice["token_ids"]) == "Grüße 🙂"
    content = choice["logprobs"]["content"]
    assert len(content) == len(choice["token_ids"]) == answer["usage"]["completion_tokens"]
    assert b"".join(bytes(token["bytes"]) for token in content).decode() == "Grüße 🙂"


def test_it_is_like_vllm_or_not():
    paths = ("/v1/models", "/version", "/health", "/weight_info")
    with FakeModelServer(weight_version="7") as server:
        answers = {path: _request(server, "GET", path) for path in paths}
        assert {status for status, _ in answers.values()} == {200}
        assert answers["/v1/models"][1]["data"][0]["owned_by"] == "vllm"
        assert answers["/weight_info"][1] == {"weight_version": "7"}
        _request(server, path="/update_weight_version", body={"new_version": "8"})
        assert server.weight_version == "8"
    with FakeModelServer(vendor="openai") as server:
        statuses = [_request(server, "GET", path)[0] for path in paths]
        assert statuses == [200, 404, 404, 404]
        assert _request(server, body=_chat("Hi", return_token_ids=True))[0] == 400
        assert _request(server, body=_chat("Hi"))[0] == 200


def test_it_asks_for_the_key():
    with FakeModelServer(api_key="k") as server:
        assert _request(server, body=_chat("Hi"))[0] == 401
        headers = {"authorization": "Bearer k"}
        assert _request(server, body=_chat("Hi"), headers=headers)[0] == 200
