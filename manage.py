#!/usr/bin/env python3
"""Django's command line: `manage.py migrate`, `engine`, `load_recordings`, `retention`, `settings_table`."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ucutlass_web.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
