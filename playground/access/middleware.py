"""What holds for every request: the address can be read, no other site's page sent it, a failure names its cause, and
the API's errors have one format."""

from __future__ import annotations

import logging

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse

from playground.access import answers, faults, origins
from playground.access.answers import Refused

logger = logging.getLogger(__name__)

SAFE = ("GET", "HEAD", "OPTIONS")
# The pages use the clipboard and the full screen, and nothing else that a browser asks its user about.
_DENIED = (
    "accelerometer", "autoplay", "browsing-topics", "camera", "display-capture", "encrypted-media", "geolocation",
    "gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get",
    "screen-wake-lock", "serial", "usb", "xr-spatial-tracking",
)  # fmt: skip
PERMISSIONS = ", ".join(["clipboard-write=(self)", "fullscreen=(self)", *(f"{name}=()" for name in _DENIED)])


class Permissions:
    """Name the abilities of a browser that the pages use, on every answer."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Permissions-Policy"] = PERMISSIONS
        return response


class Readable:
    """Refuse an address that no view can read, before the static files and the views look for it."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        refused = origins.unreadable(request.path, request.META.get("QUERY_STRING", ""))
        if refused is None:
            return self.get_response(request)
        if answers.machine(request):
            return JsonResponse(refused.body, status=refused.status)
        return answers.plain(refused.status, "This address cannot be read", " ".join(refused.body.values()))


class SameOrigin:
    """Refuse requests that another site's page makes in a visitor's browser (playground.access.origins)."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in SAFE and self._foreign(request):
            refusal = {"error": "This request comes from another site's page.", "fix": "Use the page of this server."}
            return JsonResponse(refusal, status=403)
        return self.get_response(request)

    @staticmethod
    def _foreign(request: HttpRequest) -> bool:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return True
        try:
            host = request.get_host()
        except DisallowedHost:
            return False  # CommonMiddleware refuses it with 400
        return origins.foreign(request.headers.get("Origin"), host)


class Failures:
    """Answer a failure of the machine in a view of a page with 503 and its cause; the API does the same in its handler.
    A mistake of ours stays a 500."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, failure: Exception) -> HttpResponse | None:
        refused = failure if isinstance(failure, Refused) else faults.refusal_of(failure)
        if refused is None:
            return None
        if refused.status >= 500:
            logger.warning("%s %s: %s: %s", request.method, request.path, type(failure).__name__, failure)
        return answers.refusal(request, refused, "Not now" if refused.status in (429, 503) else "Not valid here")


class Methods:
    """Say to a method that an address does not take which ones it takes: as {error, fix}, or on a page."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code != 405:
            return response
        allowed = response.headers.get("Allow", "")
        error = f"This address takes {allowed or 'another method'}, not {request.method}."
        if answers.machine(request):
            fix = "The addresses and what each takes are listed at /api/docs."
            reply = JsonResponse({"error": error, "fix": fix}, status=405)
        else:
            reply = answers.page(request, 405, "Not this way", error)
        if allowed:
            reply["Allow"] = allowed
        return reply
