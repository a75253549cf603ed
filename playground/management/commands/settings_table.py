from django.core.management.base import BaseCommand

from playground import conf


class Command(BaseCommand):
    help = "Print every setting of the environment as a Markdown table."
    requires_system_checks = ()  # they import every page, a second of a core

    def handle(self, **options) -> None:
        self.stdout.write(conf.table())
