"""The app's engine, with every use of a place (engine.executors) in its log.

python -m tests.playground.logged_engine --device cuda
"""

import logging
import os
import sys

import django
from django.core.management import call_command

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ucutlass_web.settings")
    django.setup()
    logging.getLogger("engine.executors.places").setLevel(logging.DEBUG)
    call_command("engine", *sys.argv[1:])
