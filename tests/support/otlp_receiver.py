"""A local OTLP receiver that decodes what it gets with the official protobuf classes."""

import contextlib
import http.server
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """What was received."""

    def __init__(self, address):
        self.endpoint = address
        self.requests = []
        self.headers = []
        self.failing = False

    @property
    def spans(self):
        """All spans, by name in order of arrival."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextlib.contextmanager
def receiving():
    """Yield a receiver at a local address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.failing or self.path != "/v1/traces":
                self.send_error(400)
                return
            receiver.headers.append(dict(self.headers))
            receiver.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def values(attributes):
    """Return attributes as a dict."""
    return {item.key: _value(item.value) for item in attributes}


def _value(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)
