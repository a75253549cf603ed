"""Refuse requests that another site's page makes in a visitor's browser, and give the API's errors one format.

There is no cookie to steal, but a page elsewhere could post a module to http://127.0.0.1:8000 and have this machine run
it. Browsers send the origin of a request (Origin, Sec-Fetch-Site); programs such as curl send none and pass.
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
            refusal = {"error": "This request comes from another site's page.", "fix": "Use the page of this server."}
            return JsonResponse(refusal, status=403)
        return self.get_response(request)

    @staticmethod
    def _foreign(request) -> bool:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = request.headers.get("Origin")
        return origin is not None and urlsplit(origin).netloc != request.get_host()


class ApiErrors:
    """Answer a method that an API address does not take with {error, fix}, like other errors of the API."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        if response.status_code != 405 or not request.path.startswith("/api/"):
            return response
        allowed = response.headers.get("Allow", "")
        refusal = {"error": f"This address takes {allowed or 'another method'}, not {request.method}."}
        refusal["fix"] = "The addresses and what each takes are listed at /api/docs."
        return JsonResponse(refusal, status=405, headers={"Allow": allowed} if allowed else {})
