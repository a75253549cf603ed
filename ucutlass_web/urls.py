from django.urls import path

from playground import views
from playground.api import api
from playground.gallery import views as gallery
from playground.learn import views as learn
from playground.mcp.views import endpoint
from playground.rooms import views as rooms
from playground.sharing import pages

urlpatterns = [
    path("", views.playground, name="playground"),
    path("s/<str:session_id>", views.session, name="session"),
    path("s/<str:session_id>/fork", views.fork, name="fork"),
    path("s/<str:session_id>/export", views.export, name="export"),
    path("embed/<str:session_id>", pages.embed, name="embed"),
    path("card/<str:session_id>.png", pages.card, name="card"),
    path("c/<str:token>", views.control, name="control"),
    path("framed/<str:session_id>", views.framed, name="framed"),
    path("w", rooms.door, name="door"),
    path("w/new", rooms.new, name="new_room"),
    path("w/<str:code>", rooms.room, name="room"),
    path("w/<str:code>/wall", rooms.wall, name="wall"),
    path("w/<str:code>/wall/<str:token>", rooms.teacher, name="teacher"),
    path("mine", views.mine, name="mine"),
    path("mcp", endpoint, name="mcp"),
    path("gallery", gallery.gallery, name="gallery"),
    path("gallery/compare", gallery.compare, name="compare"),
    path("gallery/suite/<str:name>", gallery.problem, name="problem"),
    path("gallery/kernelbench", gallery.kernelbench, name="kernelbench"),
    path("gallery/kernelbench/<path:name>", gallery.kernelbench_problem, name="kernelbench_problem"),
    path("learn", learn.learn, name="learn"),
    path("learn/own", learn.own_lesson, name="learn_own"),
    path("learn/<str:slug>", learn.lesson, name="learn_lesson"),
    path("language", views.language, name="language"),
    path("language/<str:word>", views.language_word, name="language_word"),
    path("healthz", views.healthz, name="healthz"),
    path("robots.txt", views.robots, name="robots"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("api/", api.urls),
]
handler404 = "playground.views.not_found"
handler400 = "playground.views.bad_request"
handler500 = "playground.views.server_error"
