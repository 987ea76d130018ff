"""The fake model server itself: what its users rely on."""

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import orjson
import pytest

from webtraj import errors
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


def test_it_serves_plain_tests_too(model_server):
    status, answer = _request(model_server, body=_chat("Hi"))
    assert status == 200
    assert _text(answer) == "Hi"
    assert model_server.requests[0].text == "Hi"


def test_it_serves_other_processes(model_server):
    code = (
        "import sys, httpx; url = sys.argv[1] + '/chat/completions'; "
        "body = {'model': 'fake-model', 'messages': [{'role': 'user', 'content': 'Hi'}]}; "
        "print(httpx.post(url, json=body).json()['choices'][0]['message']['content'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, model_server.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "Hi"


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


def test_a_rule_that_raises_is_found_out():
    def rule(request):
        raise ValueError("no rule")

    with FakeModelServer(rule) as server:
        status, answer = _request(server, body=_chat("Hi"))
    assert status == 400
    assert "ValueError: no rule" in answer["error"]["message"]
    assert [str(error) for error in server.errors] == ["no rule"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "fake-model"}'])
def test_a_request_that_makes_no_sense_is_refused(body):
    with FakeModelServer() as server:
        status, _ = _request(server, body=body)
    assert status == 400
    assert len(server.errors) == 1


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


def test_it_comes_back_to_its_address():
    server = FakeModelServer()
    with pytest.raises(errors.EnvironmentMisuseError, match="no address"):
        server.url  # noqa: B018
    server.start()
    url = server.url
    for _ in range(3):
        server.stop()
        server.stop()
        assert server.url == url
        with pytest.raises(ConnectionRefusedError):
            _request(server, body=_chat("Hi"))
        server.start()
        server.start()
        assert _request(server, body=_chat("Hi"))[0] == 200
    server.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "fake-model-server"]


def test_it_does_not_take_an_address_that_is_taken():
    server = FakeModelServer()
    server.start()
    server.stop()
    port = urlsplit(server.url).port
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            server.start()
    server.start()
    server.stop()


def test_waiting_in_vain_ends(model_server):
    with pytest.raises(TimeoutError, match="0 requests, 0 of them unanswered"):
        model_server.wait_until(lambda server: bool(server.requests), timeout=0.01)


def test_a_pause_lasts_until_it_is_ended(model_server):
    model_server.pause()
    thread = threading.Thread(target=_request, args=(model_server,), kwargs={"body": _chat("a")})
    thread.start()
    model_server.wait_until(lambda server: server.busy == 1)
    assert thread.is_alive()
    model_server.resume()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_it_is_stopped_while_clients_wait(model_server):
    model_server.pause()
    failed = []

    def ask():
        try:
            _request(model_server, body=_chat("a"))
        except (ConnectionError, http.client.HTTPException) as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    model_server.wait_until(lambda server: server.busy == 5)
    model_server.stop()
    for thread in threads:
        thread.join(timeout=30)
    assert len(failed) == 5
    assert model_server.busy == 0


def test_it_survives_what_is_no_http(model_server):
    address = ("127.0.0.1", urlsplit(model_server.url).port)
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        connection.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    assert _request(model_server, body=_chat("Hi"))[0] == 200


def test_large_requests_take_little_of_its_time(model_server):
    picture = "A" * 133_000
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    body = orjson.dumps(
        {"model": "fake-model", "messages": [{"role": "user", "content": [part]}], "seed": 1}
    )
    began = time.process_time()
    for _ in range(50):
        assert _request(model_server, body=body)[0] == 200
    # A tenth of this is usual: it is to fail only if something goes over each byte in Python.
    assert time.process_time() - began < 2.5
