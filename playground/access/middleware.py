"""A guard, another site's page may not make the visitor's browser start work here; and one voice for the API's errors.

There is no cookie to steal, but a page elsewhere could post a module to http://127.0.0.1:8000 and have this machine
run it. Browsers say where a request comes from (Origin, Sec-Fetch-Site); programs such as curl say nothing and pass.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import JsonResponse

SAFE = ("GET", "HEAD", "OPTIONS")


class SameOrigin:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        if request.method not in SAFE and self._foreign(request):
            told = {"error": "This request comes from another site's page.", "fix": "Use the page of this server."}
            return JsonResponse(told, status=403)
        return self.get_response(request)

    @staticmethod
    def _foreign(request) -> bool:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = request.headers.get("Origin")
        return origin is not None and urlsplit(origin).netloc != request.get_host()


class ApiErrors:
    """A method that an address of the API does not take is told as {error, fix}, like everything else there."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        if response.status_code != 405 or not request.path.startswith("/api/"):
            return response
        allowed = response.headers.get("Allow", "")
        told = {"error": f"This address takes {allowed or 'another method'}, not {request.method}."}
        told["fix"] = "The addresses and what each takes are listed at /api/docs."
        return JsonResponse(told, status=405, headers={"Allow": allowed} if allowed else {})
