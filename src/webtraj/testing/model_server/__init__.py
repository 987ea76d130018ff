"""A model server for tests: real HTTP on this machine, replies as the test wants them.

It speaks OpenAI's chat completions as vLLM does, token ids, log-probabilities and weight versions
included, or as OpenAI itself does, and Anthropic's messages::

    from webtraj.testing.model_server import FakeModelServer, Reply

    def test_my_agent(model_server):          # The fixture is a FakeModelServer that runs.
        model_server.script("click('12')", Reply.error(503), "noop()")
        run_my_agent(base_url=model_server.url)
        assert "Submit" in model_server.requests[0].text

    def rule(request):                        # Or a rule: a request goes in, a reply comes out.
        return "click('3')" if request.images else Reply("noop()", delay=0.2)

    with FakeModelServer(rule) as server:
        ...

It runs in a thread of its own, so that plain and asynchronous tests can use it, and programs that
they start. It keeps every request. Faults are replies too: error statuses, waits, connections that
are cut, bodies that are garbage. `stop` and `start` let the server go and come back.
"""

from __future__ import annotations

from webtraj.testing.model_server.exchange import ModelRequest, Reply
from webtraj.testing.model_server.server import FakeModelServer

__all__ = ["FakeModelServer", "ModelRequest", "Reply"]
