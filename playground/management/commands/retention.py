from django.core.management.base import BaseCommand

from playground import retention


class Command(BaseCommand):
    help = "Delete sessions past UCUTLASS_RETENTION_DAYS and texts that nothing uses. The engine does it hourly too."
    requires_system_checks = ()  # they import every page, a second of a core

    def add_arguments(self, parser) -> None:
        parser.add_argument("--days", type=int, help="instead of UCUTLASS_RETENTION_DAYS")

    def handle(self, *, days: int | None, **options) -> None:
        sessions, texts = retention.sweep(days)
        self.stdout.write(f"deleted {sessions} sessions and {texts} texts")
