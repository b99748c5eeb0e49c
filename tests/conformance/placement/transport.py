"""The HTTP client of the tests: httpx, which is bypassed for requests that it refuses to send."""

from http.client import HTTPConnection

import httpx


class Transport(httpx.HTTPTransport):
    """A transport that also sends a wrong Content-Length, which httpx refuses to send."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the answer."""
        if request.headers.get("content-length", "0").isdigit():
            return super().handle_request(request)
        connection = HTTPConnection(request.url.host, request.url.port, timeout=30)
        try:
            connection.putrequest(request.method, request.url.raw_path.decode(), skip_host=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(request.read())
            answer = connection.getresponse()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
        finally:
            connection.close()


def plain_client() -> httpx.Client:
    """Return a client that uses no proxy and loads no certificates."""
    return httpx.Client(transport=Transport(verify=False), trust_env=False)
