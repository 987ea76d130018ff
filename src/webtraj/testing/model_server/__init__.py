"""A model server for tests: real HTTP on this machine with scripted replies.

It speaks OpenAI's chat completions, either as vLLM does (with token ids, log-probabilities and
weight versions) or as OpenAI does, OpenAI's Responses, and Anthropic's messages, with or without
streaming; also on the paths of Azure, Bedrock and Vertex::

    from webtraj.testing.model_server import FakeModelServer, Reply

    def test_my_agent(model_server):          # The fixture is a running FakeModelServer.
        model_server.script("click('12')", Reply.error(503), "noop()")
        run_my_agent(base_url=model_server.url)
        assert "Submit" in model_server.requests[0].text

    def rule(request):                        # Or a rule: a function from request to reply.
        return "click('3')" if request.images else Reply("noop()", delay=0.2)

    with FakeModelServer(rule) as server:
        ...

It runs in its own thread, so plain tests, asynchronous tests and subprocesses can use it. It keeps
every request. Faults are replies too: error statuses, delays, broken connections, garbage bodies.
`stop` and `start` take the server down and up again.
"""

from __future__ import annotations

from webtraj.testing.model_server.exchange import ModelRequest, Reply
from webtraj.testing.model_server.server import FakeModelServer

__all__ = ["FakeModelServer", "ModelRequest", "Reply"]
