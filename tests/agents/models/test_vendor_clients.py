"""Clients of Azure OpenAI, AWS Bedrock and Google Vertex: the vendors' SDKs, and a local server."""

import json
import sys

import pytest
from sdk_types import accepted

from webtraj import errors
from webtraj.agents import models
from webtraj.testing.model_server import Reply

pytestmark = pytest.mark.slow  # Importing the SDKs takes seconds.

VENDORS = {
    "azure": models.AzureOpenAIClient,
    "bedrock": models.BedrockClient,
    "vertex": models.VertexClient,
}

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

NO_RETRIES = models.RetryPolicy(max_retries=0)


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    settings = {
        "OPENAI_API_VERSION": "2026-10-01",
        "AZURE_OPENAI_API_KEY": "azure-key-0123456789abcdef",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "CLOUD_ML_REGION": "europe-west1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "shop",
        "VERTEX_TOKEN": "ya29.token-0123456789abcdef",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)


@pytest.fixture
async def connect(model_server):
    clients = []

    def make(vendor, **options):
        if vendor == "vertex":
            options.setdefault("api_key_variable", "VERTEX_TOKEN")
        url = model_server.url.removesuffix("/v1") + ("/v1" if vendor == "vertex" else "")
        clients.append(VENDORS[vendor]("fake-model", url, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()


PATHS = {
    "azure": "/openai/deployments/fake-model/chat/completions",
    "bedrock": "/model/fake-model/invoke",
    "vertex": "/v1/projects/shop/locations/europe-west1/publishers/anthropic/models/fake-model"
    ":rawPredict",
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_call_goes_the_vendors_way_and_is_recorded_as_ever(
    vendor, model_server, connect, image
):
    model_server.script("noop()")
    client = connect(vendor)
    messages = [models.Message.of("system", "Act."), models.Message.of("user", "Look:", image)]
    call = await client.complete(messages, models.Sampling(temperature=0.5, max_tokens=9))
    [request] = model_server.requests
    assert request.path == PATHS[vendor]
    assert request.images == [image.data]
    assert request.json["temperature"] == 0.5
    accepted(request)
    assert (call.text, call.model) == ("noop()", "fake-model")
    assert call.sampling["temperature"] == 0.5
    assert call.provider == ("openai" if vendor == "azure" else "anthropic")
    assert image.data in str(call.messages).encode() or call.messages[-1]["content"][1]
    assert sum(call.usage.values()) > 0
    assert call.response["usage"]
    assert client.name == f"{vendor}/fake-model"


async def test_azure_has_its_key_and_version(model_server, connect, ask):
    await connect("azure").complete(ask)
    [request] = model_server.requests
    assert request.headers["api-key"] == "azure-key-0123456789abcdef"
    assert request.query == "api-version=2026-10-01"


async def test_bedrocks_requests_are_signed(model_server, connect, ask):
    await connect("bedrock").complete(ask)
    [request] = model_server.requests
    assert request.json["anthropic_version"]
    assert request.headers["authorization"] == signature_of(request)
    assert SECRET not in str(request)


def signature_of(request):
    """Returns the signature that AWS's own code makes of a request that arrived."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    signed = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    headers = {name: request.headers[name] for name in signed.split(";")}
    again = AWSRequest("POST", f"http://{request.headers['host']}{request.path}", headers=headers)
    again.data = request.body
    again.context["timestamp"] = request.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIAIOSFODNN7EXAMPLE", SECRET), "bedrock", "eu-central-1")
    canonical = auth.canonical_request(again)
    signature = auth.signature(auth.string_to_sign(again, canonical), again)
    return (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(again)}, SignedHeaders={signed}, "
        f"Signature={signature}"
    )


async def test_vertex_has_a_token(model_server, connect, ask):
    await connect("vertex").complete(ask)
    [request] = model_server.requests
    assert request.headers["authorization"] == "Bearer ya29.token-0123456789abcdef"
    assert request.json["anthropic_version"]


async def test_half_a_character_and_no_number_cost_no_reply(model_server, connect, ask):
    tokens = [{"token": "\ud83d", "logprob": float("nan")}]
    choice = {"message": {"content": "wait"}, "logprobs": {"content": tokens}}
    body = json.dumps({"choices": [{**choice, "token_ids": [1], "finish_reason": "stop"}]})
    model_server.script(Reply(body=body.encode()))
    call = await connect("azure").complete(ask)
    assert (call.text, call.logprobs) == ("wait", ())
    logprobs = call.response["choices"][0]["logprobs"]
    assert logprobs == {"content": [{"token": "\ufffd", "logprob": None}]}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_only_webtraj_retries(vendor, model_server, connect, ask, clock):
    model_server.script(Reply.error(503), Reply.error(429, retry_after=3), "ok")
    client = connect(vendor, clock=clock)
    assert (await client.complete(ask)).text == "ok"
    assert clock.slept == [0.375, pytest.approx(3.15)]
    model_server.requests.clear()
    model_server.script(Reply.error(503, "Sorry."))
    once = connect(vendor, retries=NO_RETRIES)
    with pytest.raises(errors.ModelUnavailableError, match="Sorry") as caught:
        await once.complete(ask)
    assert len(model_server.requests) == 1
    assert caught.value.call.error
    assert caught.value.call.messages


@pytest.mark.parametrize("vendor", VENDORS)
async def test_errors_are_told_apart(vendor, model_server, connect, ask):
    client = connect(vendor)
    for status, error in {
        401: errors.ModelRefusedError,
        404: errors.ModelRefusedError,
        413: errors.ContextOverflowError,
    }.items():
        model_server.script(Reply.error(status, f"Sorry {SECRET}."))
        with pytest.raises(error, match="Sorry") as caught:
            await client.complete(ask)
        if vendor == "bedrock":
            assert SECRET not in str(caught.value)
            assert SECRET not in str(caught.value.call)
    assert len(model_server.requests) == 3


async def test_an_error_of_aws_says_what_is_wrong(model_server, connect, ask):
    body = b'{"message": "Input is too long: prompt is too long."}'
    headers = {"x-amzn-errortype": "ValidationException:http://internal.amazon.com/"}
    model_server.script(Reply(status=400, body=body, headers=headers))
    with pytest.raises(errors.ContextOverflowError, match="ValidationException"):
        await connect("bedrock").complete(ask)


async def test_credentials_that_are_missing_are_named(model_server, connect, ask, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-west-2")  # The SDK keeps a region's credentials.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(errors.ModelRefusedError, match="Check the credentials"):
        await connect("bedrock").complete(ask)
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    with pytest.raises(errors.InvalidInputError, match="AZURE_OPENAI_API_KEY"):
        connect("azure")
    monkeypatch.delenv("CLOUD_ML_REGION")
    with pytest.raises(errors.InvalidInputError, match="CLOUD_ML_REGION"):
        connect("vertex")
    assert model_server.requests == []


@pytest.mark.parametrize(
    ("vendor", "extra"), [("azure", "openai"), ("bedrock", "anthropic"), ("vertex", "anthropic")]
)
def test_a_missing_sdk_names_the_extra(vendor, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(errors.MissingDependencyError, match=rf"webtraj\[{extra}\]|{extra}"):
        VENDORS[vendor]("m")
