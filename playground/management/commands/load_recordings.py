from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from playground import recordings


class Command(BaseCommand):
    help = "Load the recorded sessions into the gallery. Loaded recordings are left unchanged."
    requires_system_checks = ()  # they import every page, a second of a core

    def add_arguments(self, parser) -> None:
        parser.add_argument("folder", nargs="?", type=Path, default=recordings.FOLDER)

    def handle(self, *, folder: Path, verbosity: int, **options) -> None:
        loaded, bad = recordings.load_all(folder)
        if verbosity:
            self.stdout.write(f"{len(loaded)} recordings loaded")
        if bad:
            raise CommandError("These are not recordings:\n  " + "\n  ".join(bad))
