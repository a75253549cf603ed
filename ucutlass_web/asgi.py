"""What daphne runs: `daphne -b 127.0.0.1 -p 8000 ucutlass_web.asgi:application`."""

import gc
import os
import sys

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ucutlass_web.settings")
http = get_asgi_application()  # sets Django up; the imports below need that

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import get_resolver, path, re_path  # noqa: E402

from engine import descriptors  # noqa: E402
from engine.llm.keys import no_core_dumps  # noqa: E402
from playground.access.intake import bound_frames, bound_requests, take_in_crowds  # noqa: E402
from playground.access.origins import Sockets  # noqa: E402
from playground.access.redaction import redact_access_log  # noqa: E402
from playground.live.sockets import session_socket, unknown_socket  # noqa: E402
from playground.rooms.socket.consumer import RoomConsumer  # noqa: E402

no_core_dumps()  # this process has visitors' keys in memory, each for one request
descriptors.allow_many()  # one for each viewer
redact_access_log()
bound_requests()
bound_frames()
take_in_crowds()
# A check of a large program computes for a second in a thread beside the event loop. With Python's 5 ms between two
# threads' turns, /healthz took 0.42 s beside three such checks (median, two busy cores); with 0.5 ms it takes 0.13 s.
sys.setswitchinterval(0.0005)

application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": Sockets(
            URLRouter(
                [
                    path("ws/s/<str:session_id>", session_socket),
                    path("ws/w/<str:code>", RoomConsumer.as_asgi()),
                    re_path("", unknown_socket),
                ]
            )
        ),
    }
)

# What is loaded now stays as long as the process. Each full collection of garbage would look at all of it, and nothing
# else runs meanwhile: 0.2 s for 140,000 objects, on a slow core. The views are loaded first, not by the first request.
get_resolver()._populate()
gc.collect()
gc.freeze()
